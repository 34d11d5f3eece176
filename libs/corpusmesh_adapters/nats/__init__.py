"""Work, events and dead letters on NATS JetStream."""

from corpusmesh_adapters.nats.connection import Broker
from corpusmesh_adapters.nats.settings import BrokerSettings
from corpusmesh_adapters.nats.work import NatsWorkBroker, parse_work_message

__all__ = ["Broker", "BrokerSettings", "NatsWorkBroker", "parse_work_message"]
