"""The English that the offline model knows: function words, operators, and a few word families.

General vocabulary only; nothing here may come from a particular workspace. Families hold stems
(see `words.stem`). Where to read next: `chunks.py` applies the phrases, `columns.py` the families.
"""

from __future__ import annotations

from typing import Final

from artelier.models.offline.words import stem

NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
        " fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
} | {"dozen": 12, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100}

ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2} | {
    "3rd": 3,
    "4th": 4,
}

MONTHS: Final = {
    name: number
    for number, names in enumerate(
        "january jan,february feb,march mar,april apr,may,june jun,july jul,august aug,"
        "september sept sep,october oct,november nov,december dec".split(","),
        start=1,
    )
    for name in names.split()
}

GRAINS: Final = {
    "day": "day",
    "days": "day",
    "daily": "day",
    "date": "day",
    "dates": "day",
    "week": "week",
    "weeks": "week",
    "weekly": "week",
    "month": "month",
    "months": "month",
    "monthly": "month",
    "quarter": "quarter",
    "quarters": "quarter",
    "quarterly": "quarter",
    "year": "year",
    "years": "year",
    "yearly": "year",
    "annual": "year",
    "annually": "year",
}
GRAIN_ADJECTIVES: Final = frozenset("daily weekly monthly quarterly yearly annual annually".split())

# Operators: phrase -> (operator, argument). The longest phrase at a place wins.
_PHRASES = {
    "count": "how many|number of|numbers of|count of|count|how often|how many times|counts of|no of|number",
    "much": "how much",
    "sum": "total|totals|sum|sum of|in total|altogether|in all|combined|cumulative|overall"
    "|sum total of|add up to|aggregate|in sum",
    "avg": "average|averages|mean|avg|on average|averaged|average of|mean of",
    "median": "median|median of",
    "max": "highest|maximum|max|largest|biggest|greatest|peak|highest ever",
    "min": "lowest|minimum|min|smallest|lowest ever",
    "most": "most",
    "least": "least|fewest",
    "top": "top",
    "bottom": "bottom",
    "best": "best|leading",
    "worst": "worst",
    "distinct": "different|distinct|unique|separate|unique values of|distinct values of",
    "frequent": "most common|most frequent|most frequently|most often|commonest|most commonly",
    "latest": "most recent|most recently|latest ever",
    "rare": "least common|least frequent|least often|rarest|least frequently",
    "missing": "missing|null|nulls|empty|blank|blanks|nan|not filled|not filled in|unfilled"
    "|incomplete|not recorded|unrecorded|not known|unknown|absent",
    "lacking": "without|lack|lacks|lacking|no",
    "complete": "not missing|not null|not empty|not blank|filled in|filled|non-null|non-empty",
    "per": "per|for each|for every|in each|in every|of each|of every|each|every|grouped by|group by"
    "|broken down by|break down by|split by|by each|by every|at each|on each|by|across|across all"
    "|for each of|within each|from each|with each|according to each|breakdown by|separately for"
    "|per each|broken out by|split out by|split up by|aggregated by|for all|for all the"
    "|across the|for the different|for the various|for each different|at every|on every"
    "|summarised by|summarized by|depending on|by the|for each individual",
    "not": "not|except|except for|excluding|other than|apart from|outside|outside of|isn't|aside from"
    "|but not|excl|non|not counting|not including|not equal to|different from",
    "and": "and|as well as|plus|along with|together with|&",
    "or": "or",
    "single": "single|individual|one single",
    "change": "change|changes|changed|changing|difference|differences|differ|differed|compare"
    "|compares|compared|comparing|comparison|growth|grow|grew|grown|increase|increased|decrease"
    "|decreased|rise|rose|risen|drop|dropped|decline|declined|develop|developed|development"
    "|evolve|evolved|shift|shifted|move|moved|go up|go down|went up|went down|fall|fell|fallen"
    "|go|shrink|shrank|vary|varied|improve|improved|change in|change of",
    "versus": "vs|versus|against|compared to|compared with|in comparison to|in comparison with"
    "|relative to|over against|as compared to|as compared with|as against",
    "how": "how",
    "what": "what",
    "which": "which",
    "who": "who|whom",
    "when": "when",
    "rows": "rows|row|records|record|entries|entry|lines|line|observations|data points|times"
    "|data rows|data records",
    "columns": "columns|column|fields|field|variables|attributes",
    "values": "values|value|cells|cell|data",
    "from": "from",
    "to": "to|through|thru|–|—",
    "between": "between|in between|ranging from|range from",
    "since": "since|starting from|starting in|starting with|starting on|beginning in|as of"
    "|beginning with|from the start of|on or after|in or after|not before|no earlier than",
    "before": "before|earlier than|prior to|up until the start of",
    "after": "after|later than|following|past",
    "until": "until|till|up until|through the end of|to the end of|up to the end of|ending in"
    "|up to and including|until the end of|by the end of|on or before|no later than|not after"
    "|ending on",
    "onwards": "onwards|onward|on wards|and later|or later|and after|and onwards|and since",
    "earlier": "or earlier|and earlier|and before|or before",
    ">": "over|above|more than|greater than|exceeding|exceeds|exceed|exceeded|higher than|>"
    "|larger than|bigger than|in excess of|upwards of|strictly more than|beyond|more",
    ">=": "at least|no less than|not less than|no fewer than|not fewer than|a minimum of|>=|≥"
    "|minimum of|not below|not under|greater than or equal to|more than or equal to|not lower than"
    "|no lower than|above or equal to|at or above|equal to or greater than|equal to or more than",
    "<": "under|below|less than|fewer than|lower than|smaller than|<|less|fewer",
    "<=": "at most|no more than|not more than|a maximum of|maximum of|<=|≤|up to|not above|not over"
    "|not exceeding|less than or equal to|no higher than|not higher than|at or below|or equal to"
    "|no greater than|not greater than|lower than or equal to|fewer than or equal to|max of",
    "=": "exactly|equal to|equals|equal|=|==|precisely",
    "!=": "!=|<>|≠",
    "or more": "or more|or above|or higher|or over|and above|and over|and up|or greater|or better"
    "|and higher|and more|or larger|+",
    "or less": "or less|or fewer|or below|or lower|or under|and below|and under|or smaller",
}


def _table() -> dict[tuple[str, ...], str]:
    table: dict[tuple[str, ...], str] = {}
    for operator, phrases in _PHRASES.items():
        for phrase in phrases.split("|"):
            table[tuple(phrase.replace("'", " ' ").split())] = operator
    return table


OPERATORS: Final = _table()
OPERATOR_WORDS_MAX: Final = max(len(phrase) for phrase in OPERATORS)
AGGREGATES: Final = frozenset(("sum", "avg", "median", "max", "min"))
SOFT: Final = frozenset(
    "count sum avg median max min change missing values top rows best single columns complete"
    " distinct past after most".split()
)
"""Operators whose words may just as well be the name of a column."""

# Adjectives of degree: a base, its family of column words, and whether more of it is more.
_DEGREES = (
    ("expensive pricey costly dear", "price cost", True),
    ("cheap inexpensive", "price cost", False),
    ("hot warm", "temperature temp", True),
    ("cold cool chilly", "temperature temp", False),
    ("old", "age", True),
    ("young", "age", False),
    ("long lengthy", "duration length runtime", True),
    ("short brief", "duration length runtime", False),
    ("tall", "height", True),
    ("heavy", "weight mass", True),
    ("light", "weight mass", False),
    ("fast quick speedy", "speed velocity", True),
    ("slow", "speed velocity", False),
    ("wet rainy", "rain rainfall precipitation", True),
    ("dry", "rain rainfall precipitation", False),
    ("windy", "wind windspeed gust", True),
    ("humid", "humidity", True),
    ("snowy", "snow snowfall", True),
    ("sunny", "sun sunshine", True),
    ("deep", "depth", True),
    ("shallow", "depth", False),
    ("wide", "width", True),
    ("loud noisy", "noise loudness", True),
    ("populous", "population inhabitants", True),
    ("paid", "salary wage pay", True),
    ("aged", "age", True),
    ("rated", "rating score stars", True),
    ("priced", "price", True),
)


def _degree_forms() -> dict[str, tuple[frozenset[str], bool, str]]:
    """Each form (`hot`, `hotter`, `hottest`) with its stems, its direction and its degree."""
    forms: dict[str, tuple[frozenset[str], bool, str]] = {}
    for bases, family, more in _DEGREES:
        stems = frozenset(stem(word) for word in family.split())
        for base in bases.split():
            forms[base] = (stems, more, "base")
            root = base[:-1] + "i" if base.endswith("y") else base.removesuffix("e")
            doubled = root + root[-1] if root in ("hot", "wet") else root
            forms[doubled + "er"] = (stems, more, "comparative")
            forms[doubled + "est"] = (stems, more, "superlative")
    return forms


DEGREES: Final = _degree_forms()
LATEST: Final = {
    "latest": True,
    "newest": True,
    "last": True,
    "recent": True,
    "earliest": False,
    "first": False,
    "final": True,
}
"""Superlatives of time; true means the later one."""

BUSIEST: Final = {"busiest": True, "quietest": False}

# Verbs that ask for a measure of the table: stem -> family.
MEASURE_VERBS: Final = {
    "sel": "sell",
    "spend": "spend",
    "pay": "spend",
    "earn": "earn",
    "gros": "sell",
    "generat": "sell",
    "cost": "cost",
    "yield": "sell",
}
MONEY: Final = frozenset(
    stem(word)
    for word in (
        "revenues sales amount total turnover income proceeds earnings gross subtotal receipts"
        " takings spend paid payment fee fare spent expense"
    ).split()
)
FAMILIES: Final = {
    "sell": MONEY,
    "spend": MONEY | {stem("price"), stem("cost")},
    "earn": frozenset(stem(word) for word in "salary wage income pay earnings".split()),
    "cost": frozenset(stem(word) for word in "cost price fee fare expense".split()),
}
QUANTITY: Final = frozenset(
    stem(word) for word in "unit quantity qty count volume item piece copy pcs".split()
)
NO_MONEY: Final = frozenset(
    stem(word)
    for word in (
        "target goal budget plan forecast tax vat discount shipping commission count number rate"
        " unit quantity qty percent pct list cost change growth"
    ).split()
)
"""A column with one of these words is not what was sold for, though it may hold money."""

INTENSIVE: Final = frozenset(
    stem(word)
    for word in (
        "price rate rating score grade temperature temp humidity pressure age salary wage height"
        " weight speed velocity level percent pct percentage ratio share average avg mean min max"
        " minimum maximum latitude longitude depth size length width reading index margin iq gpa"
        " bmi ph celsius fahrenheit fever rank position priority density altitude elevation noise"
        " brightness voltage current frequency stars satisfaction efficiency tenure seniority dose"
        " experience probability confidence median degree speedup thickness moisture lux area"
        " capacity population"
    ).split()
)
"""Adding these up over rows means nothing: a highest one is a single value."""

ADDITIVE: Final = (
    frozenset(
        stem(word)
        for word in (
            "volume hours minutes seconds days pages copies items visits clicks orders returns rain"
            " rainfall precipitation snow snowfall distance calories passengers goals points votes"
            " views downloads profit cost costs expenses budget tax discount commission bonus"
            " donation attendance sunshine consumption production output yield kwh energy losses"
            " wins deaths births cases planned actual allocated traffic mileage shipping tips"
            " balance refunds quantity total"
        ).split()
    )
    | MONEY
    | QUANTITY
)
FLOWS: Final = MONEY | QUANTITY | frozenset(stem(w) for w in "cost profit budget expenses".split())
"""Amounts whose `highest` for a group is its total; for others a single highest one may be meant."""

PROPERTIES: Final = frozenset(
    stem(w) for w in "price cost salary wage pay age height weight depth width length".split()
)
"""What a thing has once: its highest value says more than a mean."""

MORE_IS_BETTER: Final = MONEY | frozenset(
    stem(word)
    for word in "rating score satisfaction grade stars points goals profit votes sales quantity units".split()
)
"""What `best` may stand before."""

NOT_A_MEASURE: Final = frozenset(
    "id ids key code zip postal postcode phone isbn sku lat lon lng latitude longitude year month"
    " quarter week weekday day hour uuid guid ssn barcode index idx".split()
)
"""Numbers that name things: never added up, averaged or ranked unless their name is said."""

UNIT_WORDS: Final = frozenset(
    "c f k eur usd gbp chf kg g mg t km m mm cm l ml ms s h hrs min pct percent hpa kmh kph mph kwh"
    " celsius fahrenheit euro euros dollar dollars cents pounds celcius hg mb in sqm m2 m3 km2"
    " sqft co2 ppm".split()
)
"""Endings of column names that only say the unit."""

UNITS: Final = {
    "degrees": "temperature temp",
    "degree": "temperature temp",
    "celsius": "temperature temp",
    "fahrenheit": "temperature temp",
    "c": "temperature temp",
    "°c": "temperature temp",
    "kg": "weight mass",
    "kilograms": "weight mass",
    "kilos": "weight mass",
    "g": "weight mass",
    "grams": "weight mass",
    "km": "distance",
    "kilometers": "distance",
    "kilometres": "distance",
    "miles": "distance",
    "mm": "rain rainfall precipitation",
    "hpa": "pressure",
    "dollars": "$",
    "dollar": "$",
    "usd": "$",
    "euros": "$",
    "euro": "$",
    "eur": "$",
    "gbp": "$",
    "bucks": "$",
    "$": "$",
    "€": "$",
    "£": "$",
    "m": "",
    "meters": "",
    "metres": "",
    "cm": "",
    "percent": "%",
    "%": "%",
    "pct": "%",
    "items": "quantity qty units count",
    "pieces": "quantity qty units count",
    "units": "quantity qty units count",
    "copies": "quantity qty units count",
    "minutes": "",
    "minute": "",
    "hours": "",
    "hour": "",
    "days": "",
    "seconds": "",
    "weeks": "",
    "years": "",
    "points": "",
    "stars": "rating score stars",
    "star": "rating score stars",
    "tons": "",
    "litres": "",
    "liters": "",
    "kwh": "energy consumption",
    "mph": "speed wind",
    "kph": "speed wind",
    "km/h": "speed wind",
}
"""Units said after a number: the family they point to (`$` is money), `` if none."""

SYNONYMS: Final = tuple(
    frozenset(stem(word) for word in group.split())
    for group in (
        "customer client buyer shopper",
        "employee worker staff person colleague staffer personnel",
        "borrower member patron reader",
        "member person",
        "customer person",
        "student pupil",
        "product article",
        "city town",
        "salary wage pay",
        "order purchase",
        "revenues turnover income",
        "kind type category",
        "sex gender",
        "reading measurement observation record",
        "film movie",
        "car vehicle",
        "temperature temp",
        "rain rainfall precipitation",
        "rating stars score",
        "loan borrow lend checkout",
        "purchase buy",
        "order buy",
        "quantity qty unit piece item",
        "amount amt",
        "department dept",
        "employee emp",
        "customer cust",
        "number num",
        "country nation",
        "supplier vendor",
        "birth birthday dob",
        "job position role",
        "manager boss",
        "title name",
        "book title",
        "place location",
        "doctor physician",
        "wind windspeed",
        "runtime duration length",
        "price cost",
        "work employee",
        "subscribe subscription",
    )
)
"""Weak evidence, used only where nothing matches better and a single column or table remains."""

ORIGINS: Final = frozenset(stem(w) for w in "origin from source departure start sender".split())
GOALS: Final = frozenset(stem(w) for w in "destination dest to target arrival end receiver".split())
"""Columns for where something comes from and where it goes: `from Oslo`, `to Rome`."""

BUYERS: Final = frozenset(stem(w) for w in "customer client buyer member patron guest".split())
"""Persons who do not sell."""

PERSONS: Final = frozenset(
    stem(word)
    for word in (
        "customer client member employee person user student patient author player seller rep"
        " salesperson manager borrower teacher doctor driver owner agent staff worker visitor"
        " guest subscriber donor volunteer applicant candidate artist director passenger patron"
        " respondent technician nurse engineer instructor speaker reviewer assignee reporter contact buyer"
    ).split()
)
"""What `who` may ask for."""

LABELS: Final = ("name", "title", "label", "full name", "fullname", "description", "username", "first name")
"""Columns that say what a row is called, best first."""

NEUTRAL_VERBS: Final = frozenset(
    stem(word)
    for word in (
        "handle score use play collect produce consume serve host manage run attend teach write gain"
        " accumulate burn drink eat travel drive ride cover walk clock log see draw attract welcome"
        " treat process answer donate contribute raise receive buy order purchase borrow rent request"
        " submit carry transport cost weigh last need require spend sell earn bring hold own read"
        " watch visit climb swim cycle do perform cause suffer experience face show offer stock"
        " operate perform complain lead create post publish send share enjoy pick choose tally amass"
        " rack bake cook grow harvest catch rescue adopt vote cast work put supply provide employ"
        " take make get give have see house accommodate seat store feature print call dial"
        " fly sail export import invest pay leave depart arrive land enrol"
    ).split()
)
"""Verbs that add nothing to the noun they act on: `Who scored the most goals?` is about goals. Verbs that
may be a state of a row (`delivered`, `closed`, `won`) are left out on purpose."""

PASSIVE_NEUTRAL: Final = frozenset(
    "played recorded registered made placed logged reported measured observed collected produced"
    " consumed generated used scored taken held spent sold bought ordered purchased received donated"
    " borrowed driven served entered noted counted raised earned rented".split()
)
"""Participles that describe every row alike: `How many games were played?`"""

STARTS: Final = frozenset(
    stem(word)
    for word in "open opened create created start started begin began order ordered place placed submit"
    " submitted receive received report reported request requested register registered book booked"
    " issue issued admit admitted enrol enrolled check arrive arrival sold pick picked loan borrowed"
    " departure depart sent visit visited".split()
)
"""A date column with one of these words dates the row itself."""

EVENT_DATES: Final = frozenset(
    stem(word)
    for word in "hire hired birth born dob join joined start end due expiry expire expires return"
    " returned death termination terminated closed cancelled resigned".split()
)
"""A date column with one of these words dates one thing about a row, and must be named."""

PLAIN_DATES: Final = frozenset(
    stem(word) for word in "date day time timestamp datetime at on when utc local dt ts".split()
)

_FILLERS = """
a an the of in at on for with is are was were be been being am do does did done has have had having
there here we our ours us i me my mine you your it its they their them he she his her this that these
those such as so than then also just only please kindly can could would will shall may might should
tell show give list find name display provide get got return calculate compute determine report say
want need like know see let look into about regarding concerning whose where which who that's
any all both itself ever actually really currently exactly roughly overall
take took taken place placed occur occurred happen happened make made put come came go went
record recorded register registered log logged belong belongs belonging locate located live lives lie lies
living work works working contain contains contained containing include includes included
including hold holds held exist exists existing reach reached achieve achieved receive received
see saw seen observe observed measure measured report reported note noted enter entered
turn out find found available given respective respectively various certain particular
entire whole full data dataset database table tables file files csv sheet spreadsheet workspace
information stats statistics results result during throughout within among amongst via using based
up out off one ones thing things stuff kind sort way amount amounts figure figures numbers worth much many
period time list listing
overview breakdown distribution analysis split summary answer question well now
respect according hi hello hey ok okay thanks thank
marked labelled labeled tagged classified categorised categorized flagged listed stored called named
offered yet attributed associated attached related corresponding connected linked bring brought
stand stands stood accounted amounted generate generated themselves ' " ( ) , . : ; - /
"""
FILLERS: Final = frozenset(_FILLERS.split())
"""Words that say nothing by themselves. What is neither known nor a filler makes a question refused."""

FUNCTION_WORDS: Final = frozenset(
    "a an the of in at on for with is are was were be been do does did has have had there we our us"
    " i me my you your it its they their them this that these those as so than then and or not no by"
    " to from per each every all any both how many much what which who when where if but".split()
)
"""Too common to be matched to a column by one word alone."""

PRONOUNS: Final = frozenset("its their his her them they it those these he she theirs".split())
"""After a ranking or a list these point at its result, which no query knows."""

RELATIVE_TIME: Final = frozenset(
    "today yesterday tomorrow now recently lately nowadays ytd ago upcoming".split()
)
RELATIVE_WORDS: Final = frozenset("last previous this current next past recent coming".split())
"""Before a day, week, month, quarter or year these point from a `now` that the model does not have."""
