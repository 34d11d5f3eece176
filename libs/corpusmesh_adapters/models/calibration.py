"""Texts that the default model is calibrated with: prose, tables, code, numbers, several languages and scripts."""

from typing import Final

CALIBRATION_TEXTS: Final = (
    (
        "passage: Returns and refunds\nA customer may return an unused article within 30 days of delivery. "
        "The refund of 149.90 EUR is paid to the account that the order was paid from; shipping (4.95 EUR) "
        "is not refunded. Article numbers such as AX-2041/B must be given."
    ),
    (
        "passage: Maria Lindqvist was born in Uppsala in 1931 and studied chemistry under Erik Holm. She "
        "moved to Montreal in 1958, where she directed the Institute for Polymer Research until her death on "
        "4 March 1999."
    ),
    (
        "passage: 员工手册 第三章 休假\n员工每年享有十五天带薪年假。未休完的年假可以顺延至次年三月三十一日；"
        "逾期不再补偿。申请须提前两周提交部门经理批准，病假须附医院证明。"
    ),
    (
        "passage: The protocol elects a leader by majority vote. Each follower keeps a log; an entry is "
        "committed once more than half of the nodes have stored it (n/2 + 1). After a partition heals, the "
        "stale leader steps down."
    ),
    (
        "passage: | Quarter | Revenue (M) | Margin |\n| --- | --- | --- |\n| Q1 2023 | 12.4 | 31 % |\n| Q2 "
        "2023 | 13.9 | 29 % |\n| Q3 2023 | 11.2 | 33 % |"
    ),
    (
        "passage: 黄河发源于青藏高原巴颜喀拉山北麓，流经青海、四川、甘肃等九个省区，全长约5464公里，最后注入"
        "渤海。历史上黄河下游多次改道，给两岸人民带来了深重的灾难。"
    ),
    (
        "passage: def retry(call, attempts=3):\n    for attempt in range(attempts):\n        "
        "try:\n            return call()\n        except TimeoutError as error:\n            last = "
        "error\n    raise last"
    ),
    (
        "passage: Patients treated with the compound showed a 23% lower risk of stroke (hazard ratio 0.77, "
        "95% CI 0.65-0.91; p < 0.001). Adverse events were mild, mostly headache and nausea, and did not "
        "differ between groups."
    ),
    (
        "passage: 臺灣高鐵於2007年通車，連接臺北與左營，全長約350公里，最快約九十分鐘可達。車票可於車站、網站"
        "或便利商店購買，兒童與長者享有半價優惠。"
    ),
    (
        "passage: Der Vertrag verlängert sich um ein Jahr, wenn er nicht drei Monate vor Ablauf schriftlich "
        "gekündigt wird. El contrato se renueva automáticamente. Le contrat est reconduit tacitement."
    ),
    (
        'passage: Album\n"Northern Lights" is the second studio album by the Norwegian duo Fjell. It was '
        "released on 12 May 2003 by Blue Door Records, reached number 4 on the charts, and contains the "
        'single "Harbour".'
    ),
    (
        "passage: 安装步骤：1. 下载安装包并校验 SHA-256；2. 运行 install.sh --prefix=/opt/app；3. 修改 "
        "config.yaml 中的 port（默认 8080）；4. 重启服务。若启动失败，请查看日志文件。"
    ),
    "query: who directed the film that won the award in 1994?",
    "query: 年假可以顺延到什么时候？",
    "query: how do I reset my password",
    "query: capital of the country where the composer was born",
)
