"""Where a run takes place: the engines' environment, the nodes, the control, and the report."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_process import AgentProcess
from control import Control
from locations import PYTHON, free_port
from report import Report
from vllm_process import VllmProcess


@dataclass
class Site:
    """The place of one run: its folders, control, report and engines."""

    venv: Path
    model: Path
    folder: Path  # Folder of the run: logs, sockets, disks, observations.
    report: Report
    control: Control | None = None  # None until the control has run.
    engines: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def plain_engine(self, name: str) -> VllmProcess:
        """Starts an engine without kvtier."""
        return self._kept(VllmProcess(self.venv, self.model, free_port(), self.folder / f"{name}.log", PYTHON))

    def engine(self, name: str, agent: AgentProcess, more: tuple[str, ...] = (), model: Path | None = None,
               python: Path = PYTHON, options: Mapping[str, object] | None = None) -> VllmProcess:
        """Starts an observed engine on an agent's node."""
        return self._kept(VllmProcess(
            self.venv, model or self.model, free_port(), self.folder / f"{name}.log", python, agent.socket_dir,
            more=more, observed=self.observed / name, options=options))

    def unobserved_engine(self, name: str, agent: AgentProcess, more: tuple[str, ...],
                          options: Mapping[str, object]) -> VllmProcess:
        """Starts an engine with the plain connector, for blocks that are not stored as they are in its memory."""
        return self._kept(VllmProcess(self.venv, self.model, free_port(), self.folder / f"{name}.log", PYTHON,
                                      agent.socket_dir, more=more, options=options))

    def engine_beside(self, name: str, agent: AgentProcess) -> VllmProcess:
        """Starts an engine with the plain connector inside MultiConnector, beside another connector."""
        beside = self.folder / f"{name}_files"
        beside.mkdir()
        return self._kept(VllmProcess(self.venv, self.model, free_port(), self.folder / f"{name}.log", PYTHON,
                                      agent.socket_dir, beside=beside))

    @property
    def observed(self) -> Path:
        """Returns the folder of all observations."""
        return self.folder / "observed"

    def _kept(self, engine: VllmProcess) -> VllmProcess:
        return self.engines.enter_context(engine)
