"""Metrics of workers and of the housekeeper."""

from prometheus_client import Counter, Gauge, Histogram

TASKS_TOTAL = Counter(
    "corpusmesh_worker_tasks_total",
    "Tasks taken from the queue, by stage, lane and outcome.",
    ("stage", "lane", "outcome"),
)
TASKS_IN_FLIGHT = Gauge("corpusmesh_worker_tasks_in_flight", "Tasks being done now.", ("stage", "lane"))
TASK_DURATION_SECONDS = Histogram(
    "corpusmesh_worker_task_duration_seconds",
    "How long a claimed task takes until it is committed.",
    ("stage", "lane"),
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
WORKER_FETCHING = Gauge("corpusmesh_worker_fetching", "1 while the broker answers fetches.", ("stage", "lane"))
MESSAGES_REJECTED_TOTAL = Counter(
    "corpusmesh_work_messages_rejected_total", "Messages moved to the dead letters, by reason.", ("reason",)
)
TASKS_RECOVERED_TOTAL = Counter(
    "corpusmesh_tasks_recovered_total", "Tasks that the housekeeper set going again, by cause.", ("cause",)
)
