"""The command that alarms run: an argument list, never a shell; the alarm is JSON on its standard input."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

from psimlearn.serve.engine import Engine
from psimlearn.serve.log import log
from psimlearn.serve.store import StoreError

__all__ = ["Commands"]

PATIENCE = 60.0
"""Seconds that a command may take."""
AT_ONCE = 4
"""Commands that run at a time."""
PAUSE = 5.0
"""Seconds after which alarms whose command has not been run are looked for again."""


class Commands:
    """Runs the command for every alarm at least once: alarms that nobody was told of are told at the next start."""

    def __init__(self, command: Sequence[str], engine: Engine) -> None:
        self.command = list(command)
        self.engine = engine
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen for alarms."""
        self.engine.on_alarm = self._wake.set
        self._wake.set()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), PAUSE)
            self._wake.clear()
            try:
                while alarms := (await self.engine.stored(self.engine.store.untold))[:AT_ONCE]:
                    await asyncio.gather(*(self._tell(alarm) for alarm in alarms))
                    async with self.engine.lock:
                        await self.engine.stored(self.engine.store.tell, [alarm["number"] for alarm in alarms])
            except StoreError as error:
                log("alarms not told", error=str(error))

    async def _tell(self, alarm: dict[str, object]) -> None:
        """Run the command for one alarm; it counts as told however the command ends."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self.engine.metrics.count("commands")
        try:
            process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=nothing, stderr=nothing)
        except OSError as error:
            log("alarm command failed", command=self.command[0], alarm=alarm["number"], error=str(error))
            return
        try:
            await asyncio.wait_for(process.communicate(json.dumps(alarm).encode()), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
        code = process.returncode
        log("alarm command", command=self.command[0], alarm=alarm["number"], stream=alarm["id"], code=code)
