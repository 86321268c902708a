"""Send questions to the workers of a Dask cluster directly, without its scheduler."""

from __future__ import annotations

from typing import NamedTuple

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import to_serialize

from ..core.version import __version__

OPERATION = f"pybundle_answer_{__version__}"


class Mailbox(WorkerPlugin):
    """A plugin by which a worker answers from the parts that it holds, in the threads of its tasks.

    The plugin stays on the cluster after a run. Its name has the version, as later runs may use another version of the
    package.
    """

    name = f"pybundle-mailbox-{__version__}"
    idempotent = True

    def setup(self, worker):
        async def answer(name, question, w):
            parts = worker.data.get(name)
            if parts is None:
                return {"answer": None}
            found = await worker.loop.run_in_executor(worker.executor, parts.answer, question, w)
            return {"answer": to_serialize(found)}

        worker.handlers[OPERATION] = answer


class Reply(NamedTuple):
    """The reply to the request `key`: an answer, or None."""

    key: str
    answer: object


async def exchange(client, address, name, key, question, w, done):
    """Ask the worker at the address for the answer of its parts `name`; put a `Reply` into `done`."""
    try:
        reply = await getattr(client.rpc(address), OPERATION)(name=name, question=to_serialize(question),
                                                              w=to_serialize(w))
        answer = reply["answer"]
    except Exception:           # after any failure the request goes through the scheduler
        answer = None
    done.put(Reply(key, answer))
