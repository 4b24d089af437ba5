"""Programs of a test that speak RPC as OpenStack's do: a server that notes what it is asked, and a client that asks all
the time, each until it is told to end. They run in an image, with a configuration as the operator writes it.
"""

PROGRAM = r'''
import os, signal, sys, threading, time

from oslo_config import cfg
import oslo_messaging

role, conf_file, log = sys.argv[1:4]
conf = cfg.CONF
conf(["--config-file", conf_file], default_config_files=[])
transport = oslo_messaging.get_rpc_transport(conf)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
lines = open(log, "a", buffering=1)


class Notes:
    target = oslo_messaging.Target(version="1.0")

    def note(self, context, number):
        lines.write(f"{number}\n")
        return number


def serve(topic, host):
    target = oslo_messaging.Target(topic=topic, server=host, exchange="nova")
    server = oslo_messaging.get_rpc_server(transport, target, [Notes()], executor="threading")
    server.start()
    lines.write("serves\n")
    ended.wait()
    server.stop()
    server.wait()


def ask(first):
    """Casts to the conductors and to a host, and calls to the conductors: a line each, once the broker has taken it."""
    conductors = oslo_messaging.Target(topic="conductor", exchange="nova")
    conductor = oslo_messaging.get_rpc_client(transport, conductors, timeout=120)
    one_host = oslo_messaging.Target(topic="compute", server="host1", exchange="nova")
    host = oslo_messaging.get_rpc_client(transport, one_host)
    number = first
    while not ended.is_set():
        number += 1
        conductor.cast({}, "note", number=number)
        lines.write(f"conductor {number}\n")
        host.cast({}, "note", number=number)
        lines.write(f"compute {number}\n")
        if number % 5 == 0:
            began = time.monotonic()
            assert conductor.call({}, "note", number=-number) == -number
            lines.write(f"call {time.monotonic() - began:.2f}\n")
        time.sleep(0.02)


serve(*sys.argv[4:6]) if role == "serve" else ask(int(sys.argv[4]))
transport.cleanup()
'''
