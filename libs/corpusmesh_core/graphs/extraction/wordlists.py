"""Word lists of the extraction without a model."""

from typing import Final

_ORGANIZATION_NOUNS: Final = """
inc ltd llc corp corporation company co group gmbh ag plc university college school institute institution academy
association society committee council commission ministry department agency bureau bank club party union federation
league church orchestra band foundation trust board organization organisation court parliament congress senate army
navy records studios pictures entertainment press airlines railway laboratory hospital team network house
"""

_PLACE_NOUNS: Final = """
city town village county province state district region republic kingdom empire island islands river lake mountain
mountains mount valley bay sea ocean street road avenue park square bridge station airport castle palace cathedral
abbey forest desert peninsula country capital municipality commune parish borough suburb neighborhood settlement
territory prefecture township
"""

_EVENT_NOUNS: Final = """
war battle festival championship championships olympics games cup tournament election revolution treaty conference
congress season siege massacre rebellion
"""

_WORK_NOUNS: Final = """
film movie song album single novel book play opera series musical poem magazine newspaper journal show episode game
painting symphony ballet documentary comedy drama
"""

_PERSON_NOUNS: Final = """
king queen prince princess duke duchess emperor empress politician actor actress singer author writer poet composer
director producer footballer player coach general officer soldier bishop priest monk saint nobleman noblewoman son
daughter wife husband mother father brother sister mathematician physicist scientist engineer lawyer judge painter
sculptor musician rapper businessman businesswoman journalist philosopher historian economist architect athlete
swimmer cyclist boxer wrestler model dancer screenwriter cinematographer editor president minister governor mayor
count earl baron lord lady knight ruler sultan pharaoh pianist guitarist drummer cricketer racer driver teacher
professor activist explorer admiral pope consort socialite person man woman
"""

_NAME_PARTICLES: Final = """
of the de von van der den di du del della da dos la le les el al bin ibn mac ap y zu af av och og
"""

_TITLE_PARTICLES: Final = """
in for with to at on from a an and or by no not
"""

_FORMS_OF_ADDRESS: Final = """
mr mrs ms miss dr prof professor president senator governor general colonel captain major lieutenant sergeant judge
justice minister secretary chancellor congressman representative director actor actress singer author writer composer
ambassador commander admiral inspector chairman ceo coach
"""

_NOBLE_TITLES: Final = """
king queen prince princess duke duchess grand archduke archduchess emperor empress sultan sultana tsar czar pope count
countess earl baron baroness lord lady sir dame saint st margrave landgrave elector marquess marquis viscount bishop
archbishop cardinal sheikh emir maharaja raja khan shah baronet chief consort crown infante
"""

_OPENERS: Final = """
according additionally although also among amongst as at based because before besides beyond born both but by
consequently currently despite during each early eventually every few finally first following for formerly from
furthermore given hence how however if in including indeed initially instead it its just known largely last late later
like located many meanwhile moreover most much nevertheless no nonetheless not notably note now often on once one only
originally other others our out over overall perhaps previously produced published directed written recently released
see several she he since so some still subsequently such than that the their then there therefore these they this
those though three through throughout thus to today together two typically under unfortunately unlike until upon using
various was we were what when where whereas whether which while who whom whose why with within without yes yet you
your here his her my all an and are be can did do does had has have is may might will would should could must four
five six seven eight nine ten another any between after against about above across along around set starring part
second third made used
"""

_CALENDAR: Final = """
january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday jan feb mar apr jun jul aug sep sept oct nov dec ad bc bce ce am pm
"""

_NUMERALS: Final = """
i ii iii iv v vi vii viii ix x xi xii xiii xiv xv jr sr
"""

_SMALL_WORDS: Final = """
of the and for in on to a an de la le du des von van
"""

_COMMON_WORDS: Final = """
use used uses using useful based new old first second third next last one two three four five many much several
various different same similar certain general common main important possible available able need needs needed want
like also make makes made making take takes taken give gives given get gets got go goes went come comes came see seen
show shows shown find found know known become becomes became keep kept let set put way ways thing things case cases
part parts kind kinds type types number numbers amount time times year years day days week month months example
examples figure table section chapter page pages result results work works working well often usually always never
however therefore thus hence since although though whether either neither yet still even within without across
according per via high higher low lower large larger small smaller great good better best long short every another
less least around near off onto upon among along away back include includes included including contain contains
provide provides provided allow allows allowed require requires required mean means called refer refers say says said
must shall might cannot may will would could should has have had been being were was are is be do does did not no nor
only just than then there here when where why how what which who whom whose both each few more most other some such
own so too very can into over under again further once during before after above below between through about against
because until while if or and but as at by for from in of on to up with a an the it its it's he she they we you i his
her their our your my me him them us this that these those born died later early name named life home man men woman
women people
"""

_GENERIC_HEADINGS: Final = """
introduction abstract background conclusion conclusions references contents summary overview appendix discussion
results methods method acknowledgements acknowledgments preface index notes chapter section part page table figure
document untitled 目录 摘要 引言 概述 结论 参考文献 前言 附录 绪论 简介 总结 目錄 概要
"""

NAME_PARTICLES: Final = frozenset(_NAME_PARTICLES.split())
"""What joins the words of one name."""
TITLE_PARTICLES: Final = frozenset(_TITLE_PARTICLES.split())
"""What may stand in the name of a work, and mostly does not."""
FORMS_OF_ADDRESS: Final = frozenset(_FORMS_OF_ADDRESS.split())
"""What stands before the name of a person and is no part of it."""
NOBLE_TITLES: Final = frozenset(_NOBLE_TITLES.split())
"""What may or may not belong to a name: "King Eric XIV of Sweden" is also known without."""
OPENERS: Final = frozenset(_OPENERS.split())
"""Words that begin a sentence and are then no part of a name."""
CALENDAR: Final = frozenset(_CALENDAR.split())
"""Months, days and eras."""
NUMERALS: Final = frozenset(_NUMERALS.split())
"""What is no name by itself."""
SMALL_WORDS: Final = frozenset(_SMALL_WORDS.split())
"""Words that an acronym may leave out."""
COMMON_WORDS: Final = frozenset(_COMMON_WORDS.split())
"""Words that are no part of a noun phrase."""
GENERIC_HEADINGS: Final = frozenset(_GENERIC_HEADINGS.split())
"""Headings and titles that name no subject."""
ORGANIZATION_NOUNS: Final = frozenset(_ORGANIZATION_NOUNS.split())
"""Nouns that say that something is a kind of organisation."""
PLACE_NOUNS: Final = frozenset(_PLACE_NOUNS.split())
"""Nouns that say that something is a kind of place."""
EVENT_NOUNS: Final = frozenset(_EVENT_NOUNS.split())
"""Nouns that say that something is a kind of event."""
WORK_NOUNS: Final = frozenset(_WORK_NOUNS.split())
"""Nouns that say that something is a kind of work."""
PERSON_NOUNS: Final = frozenset(_PERSON_NOUNS.split())
"""Nouns that say that something is a kind of person."""
