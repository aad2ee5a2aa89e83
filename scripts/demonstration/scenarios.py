"""The scenarios: one document, several questions, and every way its KV can come back."""

import time

from .report import Scenario
from .worker_process import WorkerProcess

QUESTIONS = ("What is this document about?", "Who may use it?", "Name one condition in it.")

# The agent is killed at this share of the time that a host hit took from the question to the last
# copied block: in the middle of lookup and copies.
_KILL_AT = 0.5
# Another text begins after this many characters for each token of the prefix: about half way.
_SHARED_CHARACTERS_PER_TOKEN = 2
# The worker finds a restarted agent by itself; this is how long it may take.
_RECONNECT_S = 10.0


class Scenarios:
    """Runs every scenario on two nodes of a started Cluster; `progress(text)` tells what happens."""

    def __init__(self, cluster, document, options, progress):
        self._cluster, self._document = cluster, document
        self._tokens, self._max_tokens = options.prefix_tokens, options.max_tokens
        self._progress = progress
        self._digests = cluster.run_dir / "digests.json"
        self._baselines = {}

    def run(self):
        """Returns the scenarios in the order of the table."""
        here, there = self._cluster.nodes
        with WorkerProcess(here, self._cluster.run_dir, write_digests=self._digests) as worker:
            done = [self._recompute(worker), self._put_and_hit(worker, here),
                    self._from_disk(worker, here), self._after_kill(worker, here)]
            self._progress(f"starting a worker on {there.name}")
            with WorkerProcess(there, self._cluster.run_dir, digests=self._digests) as other:
                done.append(self._from_peer(other, there))
            done.append(self._partial(worker))
            done.append(self._killed_in_the_middle(worker, here))
        return done

    def _request(self, question, document=None, **options):
        return {"prompt": document or self._document, "question": question,
                "max_tokens": self._max_tokens, "prefix_tokens": self._tokens, **options}

    def _ask_all(self, scenario, worker, before=None):
        for question in QUESTIONS:
            if before:
                before()
            answer = worker.ask(self._request(question))
            scenario.add(answer, self._baselines[question])
            self._tell(scenario, answer)
        return scenario

    def _tell(self, scenario, answer):
        self._progress(f"{scenario.name}: {answer['tokens_reused']} of {answer['prompt_tokens']} "
                       f"tokens reused, first token after {1000 * answer['ttft_s']:.0f} ms")

    def _recompute(self, worker):
        scenario = Scenario("recompute", "")
        for question in QUESTIONS:
            answer = worker.ask(self._request(question, use_cache=False))
            self._baselines[question] = answer
            scenario.add(answer, answer)
            self._tell(scenario, answer)
        return scenario

    def _put_and_hit(self, worker, node):
        first = worker.ask(self._request(QUESTIONS[0]))
        self._progress(f"put: {first['blocks_committed']} blocks committed on {node.name}")
        for question in QUESTIONS[1:]:
            worker.ask(self._request(question))
        self._cluster.await_offload(node)
        return self._ask_all(Scenario("host hit", "host"), worker)

    def _from_disk(self, worker, node):
        return self._ask_all(Scenario("disk hit, host tier emptied", "disk"), worker,
                             before=lambda: self._cluster.evict_host(node))

    def _after_kill(self, worker, node):
        self._progress(f"kill -9 of {node.name}'s agent, then a new one on the same disk")
        self._cluster.kill_agent(node)
        self._cluster.start_agent(node)
        self._await_worker(node)
        return self._ask_all(Scenario("disk hit after kill -9", "disk_after_kill"), worker,
                             before=lambda: self._cluster.evict_host(node))

    def _from_peer(self, worker, node):
        return self._ask_all(Scenario("fetch from the other node", "peer"), worker,
                             before=lambda: self._cluster.evict_host(node))

    def _partial(self, worker):
        """Asks with another text from the middle on: the blocks before it hit, those after it cannot."""
        scenario = Scenario("partial prefix", "")
        shared = min(len(self._document) // 2, _SHARED_CHARACTERS_PER_TOKEN * self._tokens)
        document = self._document[:shared] + "\n\nHere another text begins.\n\n" \
            + self._document[shared:]
        baseline = worker.ask(self._request(QUESTIONS[0], document, use_cache=False))
        answer = worker.ask(self._request(QUESTIONS[0], document))
        scenario.add(answer, baseline)
        self._tell(scenario, answer)
        return scenario

    def _killed_in_the_middle(self, worker, node):
        scenario = Scenario("agent killed in the middle", "")
        fetch_s = worker.ask(self._request(QUESTIONS[1]))["onboard_s"]

        def kill():
            time.sleep(_KILL_AT * fetch_s)
            self._cluster.kill_agent(node)

        question = QUESTIONS[1]
        answer = worker.ask(self._request(question), during=kill)
        scenario.add(answer, self._baselines[question])
        self._tell(scenario, answer)
        self._cluster.start_agent(node)
        return scenario

    def _await_worker(self, node):
        deadline = time.monotonic() + _RECONNECT_S
        while self._cluster.status(node)["sessions"] == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
