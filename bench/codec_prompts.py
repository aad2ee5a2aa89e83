"""The prompts of bench_codecs: one document that all prompts share, and fifty questions about it."""

DOCUMENT = """The harbour of Kaldvik

Kaldvik is a small harbour on the north coast, four hours by ferry from the city of Ostrand. About
1,200 people live there in winter and twice as many in July. The harbour was built in 1874 by the
engineer Ingrid Halvorsen, who had studied in Delft and who paid for the first pier with her own
money. It has three piers: the old stone pier, the fish pier, and the ferry pier, which is the
longest at 310 metres.

On the headland stands a lighthouse of red granite. Its light can be seen from 24 nautical miles and
turns once every twelve seconds. The keeper is called Amelia Rusk. She is 58 years old, was born in
Lisbon, and has lived in the tower since 1997 with two cats, Bosun and Pepper. Every evening at six
she writes the weather into a blue book. There are now 41 of these books, and the museum would like
to have them, but she says that they are not finished.

The fish market opens at five in the morning on Tuesdays, Thursdays and Saturdays. Cod is sold from
January to April, mackerel in summer, and crab all year. In 2019 the boats of Kaldvik landed 3,400
tonnes of fish; in 2023 it was only 2,150 tonnes, because the water had become warmer and the cod
had moved north. The cooperative has 27 boats. The largest is the Solveig, 31 metres long, whose
captain, Tomas Berg, lost two fingers in a winch and plays the accordion nevertheless.

In the storm of November 1962 the old pier broke in two places. Eleven boats sank, but nobody died,
because the baker, Oskar Lind, had seen the glass fall and had rung the church bell at three in the
morning. Since then the bakery gets its flour carried up from the ferry for free. It sells rye
bread, cardamom buns and a dark cake with prunes that is called a stormcake.

The school has 84 pupils and four teachers. Children learn to sail in the third year and to mend
nets in the fourth. The library is open on Mondays and has 9,000 books, most of them left by a doctor who
never gave one away while he lived. The bus to the station at Fjellby runs six times a day and costs
45 crowns; it does not run on Christmas Day.
"""

PROMPTS = (
    "Who built the harbour?",
    "In which year was the harbour built?",
    "How long is the ferry pier?",
    "How many people live in Kaldvik in winter?",
    "What is the name of the lighthouse keeper?",
    "Where was the keeper born?",
    "What are the names of the two cats?",
    "How far can the light be seen?",
    "What is the lighthouse made of?",
    "How many blue books are there?",
    "Why does the museum not have the books yet?",
    "On which days is the fish market open?",
    "When is cod sold?",
    "Which fish is sold all year?",
    "How much fish was landed in 2019?",
    "Why was less fish landed in 2023?",
    "How many boats does the cooperative have?",
    "What is the largest boat called?",
    "Who is the captain of the Solveig?",
    "What happened to the captain's fingers?",
    "Which instrument does the captain play?",
    "What happened in November 1962?",
    "How many boats sank in the storm?",
    "Who rang the church bell, and when?",
    "Why did nobody die in the storm?",
    "What is a stormcake?",
    "What does the bakery sell?",
    "How many pupils does the school have?",
    "In which year do children learn to sail?",
    "When is the library open?",
    "How many books are in the library?",
    "How much does the bus cost?",
    "When does the bus not run?",
    "How does one get to Kaldvik from Ostrand?",
    "Summarise the text in one sentence.",
    "Write a title for the first paragraph.",
    "List the three piers.",
    "Write one line of a poem about the lighthouse.",
    "Explain to a child what a lighthouse keeper does.",
    "Translate the name of the cake into plain words.",
    "Which number in the text is the largest?",
    "Is Amelia older than fifty? Answer yes or no and why.",
    "Write a short advertisement for the fish market.",
    "What would a visitor see first from the ferry?",
    "Write a postcard from Kaldvik.",
    "Continue the story of the storm.",
    "Name two things that are free or cheap in Kaldvik.",
    "Compare the catch of 2019 with that of 2023.",
    "What should Tomas Berg say to a new sailor?",
    "Write a Python function that returns the length of the ferry pier.",
)
