"""Names of the answers; importing them costs nothing."""

ANSWERS = {
    "summary": "What is in a capture, what is wrong, and where to look next.",
    "topics": "Who produces to and consumes from which topic.",
    "clients": "Which clients there are, their software, and what each sends.",
    "groups": "Who is in which group, why it rebalanced, who stood still, and how far behind it is.",
    "latency": "How long requests take, and what each wait was made of.",
    "errors": "Error codes by API and client, with their meaning and what to do.",
    "brokers": "Which nodes there are: addresses, releases, the controller, leaders.",
    "auth": "Who authenticated how, who failed, and why.",
    "transactions": "Transactional ids, producers and epochs; how each transaction ended.",
    "upgrade": "Which client breaks on a release, and why.",
}
"""The answers, each with its line in `--help`; answer `x` is `ANSWER` in the module
`kinspect.analysis.answers.xanswer`."""
