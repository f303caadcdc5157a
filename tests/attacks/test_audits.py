"""Scripts that look hard at the Python that runs them: an audit prints what plain Python prints."""

import difflib
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.auditing.audited_process import AuditRequest, audit_script

Attempts = Callable[[int, int], int]
SIGNALLED = 128  # an exit code, and the signal's number
LONG_S = 100.0
OF_A_PROCESS = re.compile(rb"0x[0-9a-f]{8,}|USDT:.*\n")  # addresses, and times of torch's profiler

PYTHON = {
    "syntax": "print(1)\nthis is no Python\n",
    "indentation in a module": """
        import kit
    """,
    "cause that was never raised": """
        raise KeyError("what") from ValueError("why")
    """,
    "context and cause": """
        try:
            1 / 0
        except ZeroDivisionError as error:
            error.add_note("a note")
            try:
                raise KeyError("second") from error
            except KeyError:
                raise RuntimeError("third")
    """,
    "cause suppressed": """
        try:
            1 / 0
        except ZeroDivisionError:
            raise KeyError("alone") from None
    """,
    "group": """
        raise ExceptionGroup("several", [ValueError("a"), ExceptionGroup("b", [KeyError("c")])])
    """,
    "error that cannot be printed": """
        class Odd(Exception):
            def __str__(self):
                raise ValueError("no text")
        raise Odd
    """,
    "base exception": "class Own(BaseException): pass\nraise Own('x')\n",
    "recursion": """
        import sys
        def deep(n):
            try:
                return deep(n + 1)
            except RecursionError:
                return n
        print(sys.getrecursionlimit(), deep(0))
        def endless():
            endless()
        endless()
    """,
    "exit with a message": "import sys\nprint('out')\nsys.exit('a message')\n",
    "exit with 300": "import sys\nsys.exit(300)\n",
    "exit with -1": "import sys\nsys.exit(-1)\n",
    "exit with an object": "import sys\nsys.exit([1, 2])\n",
    "exit in a thread": """
        import sys, threading
        thread = threading.Thread(target=lambda: sys.exit(5)); thread.start(); thread.join()
        print("goes on", threading.active_count())
    """,
    "quit without goodbye": "import os\nprint('lost')\nos._exit(263)\n",
    "order at exit": """
        import atexit, weakref, logging
        class A: pass
        a = A()
        weakref.finalize(a, print, "finalized")
        atexit.register(print, "registered")
        logging.warning("logged")
        print("end")
    """,
    "errors at exit": """
        import atexit, sys
        atexit.register(lambda: 1 / 0)
        atexit.register(sys.exit, 7)
        class Late:
            def __del__(self):
                raise ValueError("late")
        late = Late()
    """,
    "threads": """
        import threading, time
        def fails():
            raise ValueError("in a thread")
        thread = threading.Thread(target=fails, name="mine"); thread.start(); thread.join()
        threading.Thread(target=lambda: (time.sleep(0.2), print("outlives"))).start()
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print([each.name for each in threading.enumerate()][:1])
    """,
    "hooks of its own": """
        import sys, threading
        threading.excepthook = lambda args: print("thread", args.exc_type.__name__)
        sys.unraisablehook = lambda args: print("unraisable", args.exc_type.__name__)
        sys.excepthook = lambda type_, error, traceback: print("main", type_.__name__)
        thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()
        class Late:
            def __del__(self):
                raise KeyError
        del (late := [Late()])[0]
        raise ValueError
    """,
    "hook that calls the usual one": """
        import sys
        def hook(*args):
            print("before"); sys.__excepthook__(*args)
        sys.excepthook = hook
        raise ValueError("x")
    """,
    "subprocess": """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "import sys; print(len(sys.argv)); sys.exit(4)"]).returncode)
        print(subprocess.run(["sh", "-c", "kill -9 $$"]).returncode, subprocess.getoutput("echo hello"))
        subprocess.run(["false"], check=True)
    """,
    "fork, both ends": """
        import os, sys
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            raise ValueError("child")
        print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """,
    "fork, the child goes on": """
        import os
        if os.fork():
            os.wait()
            os._exit(3)
        print("the child's end")
    """,
    "exec": """
        import os, sys
        print("before", flush=True)
        os.execv(sys.executable, [sys.executable, "-c", "print('after'); raise SystemExit(9)"])
    """,
    "workers, forked": """
        import multiprocessing
        def work(n):
            if n == 3:
                raise ValueError(f"work {n}")
            return n * n
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(3)))
                pool.map(work, range(4), chunksize=4)
    """,
    "workers, spawned": """
        import multiprocessing, sys
        def work(n):
            return n * n, sys.argv, __name__
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, range(3)))
    """,
    "workers without a guard": """
        import multiprocessing
        process = multiprocessing.get_context("spawn").Process(target=print, args=("hi",))
        process.start(); process.join()
        print(process.exitcode)
    """,
    "futures": """
        from concurrent.futures import ProcessPoolExecutor
        import os
        def dies():
            os._exit(1)
        if __name__ == "__main__":
            with ProcessPoolExecutor(1) as pool:
                print(type(pool.submit(dies).exception()).__name__)
            with ProcessPoolExecutor(1) as pool:
                pool.submit(int, "x").result()
    """,
    "asyncio": """
        import asyncio, os, signal
        async def main():
            loop = asyncio.get_running_loop()
            came = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, came.set)
            os.kill(os.getpid(), signal.SIGUSR1)
            await came.wait()
            process = await asyncio.create_subprocess_exec("echo", "from a process")
            await process.wait()
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0))
                group.create_task(fails())
        async def fails():
            raise ValueError("a task")
        asyncio.run(main())
    """,
    "asyncio, interrupted": """
        import asyncio, os, signal
        async def main():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(60)
            finally:
                print("closed")
        asyncio.run(main())
    """,
    "stdin": """
        import sys
        print([input("? "), sys.stdin.readline(), sys.stdin.isatty()])
        input(); input()
    """,
    "debugger": "import pdb\nx = 1\npdb.set_trace()\nprint(x)\n",
    "argparse": """
        import argparse
        parser = argparse.ArgumentParser(description="what it does")
        parser.add_argument("--epochs", type=int)
        parser.add_argument("data")
        print(parser.parse_args())
    """,
    "signal to itself": "import os, signal\nprint('lost')\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "interrupt to itself": """
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        finally:
            print("closed")
    """,
    "interrupt that is raised": "raise KeyboardInterrupt('by hand')\n",
    "interrupt that is handled": """
        import signal
        signal.signal(signal.SIGINT, lambda *_: print("no"))
        signal.raise_signal(signal.SIGINT)
    """,
    "handlers of all signals": """
        import signal
        ours = {signal.SIGRTMAX - 2}  # docs/audit.md names it
        for number in sorted(signal.valid_signals() - ours):
            print(number, signal.getsignal(number))
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))
        print(signal.set_wakeup_fd(-1))
    """,
    "alarm": "import signal, time\nsignal.alarm(1)\ntime.sleep(60)\n",
    "segmentation fault": "import ctypes\nprint('lost')\nctypes.string_at(0)\n",
    "abort": "import faulthandler, os\nfaulthandler.enable()\nos.abort()\n",
    "broken pipe": """
        import os
        read, write = os.pipe(); os.close(read); os.dup2(write, 1)
        print("x" * 100_000)
    """,
    "stdout closed": "import sys\nprint('x')\nsys.stdout.close()\nprint('y')\n",
    "descriptors closed": "import os\nprint('x')\nos.close(1)\nos.close(2)\n",
    "all descriptors closed": "import os\nprint('x', flush=True)\nos.closerange(3, 999)\nraise ValueError\n",
    "descriptors": "import os\nprint(sorted(os.listdir('/proc/self/fd')))\n",
    "few descriptors": """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        try:
            open("script.py")
        except OSError as error:
            print(error)
    """,
    "stdout replaced": """
        import contextlib, io, sys
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("inside")
        sys.stdout.reconfigure(line_buffering=True)
        print(repr(text.getvalue()), sys.stdout.encoding, sys.stdout.line_buffering)
        print("\\udce9")
    """,
    "flags and surroundings": """
        import os, sys
        print(sys.flags, sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix, sys.warnoptions)
        print(sorted((k, v) for k, v in os.environ.items() if k != "_"), os.getcwd(), os.umask(0o22))
        print(__name__, __file__, __spec__, __builtins__, sorted(globals()), sys.dont_write_bytecode)
        print(sys.getswitchinterval(), sys.gettrace(), sys.getprofile(), sys.modules["__main__"].__dict__ is globals())
    """,
    "warnings are errors": "import warnings\nprint(warnings.filters)\nwarnings.warn('mine')\n",
    "hash seed": "print({'a', 'b', 'c', 'd'}, hash('x'))\n",
    "warnings": """
        import warnings
        warnings.warn("once")
        def deprecated():
            warnings.warn("old", DeprecationWarning, stacklevel=2)
        deprecated()
        open("script.py")
        print(warnings.filters)
    """,
    "stack": """
        import inspect, traceback
        def here():
            traceback.print_stack()
            print(len(inspect.stack()), inspect.getsource(here))
        here()
    """,
    "tracing": """
        import colorsys, sys
        calls = []
        sys.setprofile(lambda frame, event, arg: calls.append((event, frame.f_code.co_name)))
        len("x")
        colorsys.rgb_to_hls(1, 1, 1)
        sys.setprofile(None)
        print(calls)
    """,
    "tracing an import": """
        import sys, kit
        seen = []
        sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_filename))
        kit.two()
        sys.settrace(None)
        print(len(seen), kit.two())
    """,
    "profiler": """
        import cProfile, pstats
        profile = cProfile.Profile()
        profile.runcall(sorted, [3, 1], key=lambda each: -each)
        print(sorted((name[2], calls[0]) for name, calls in pstats.Stats(profile).stats.items()))
    """,
    "garbage": """
        import gc, tracemalloc
        print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks), gc.garbage)
        print(tracemalloc.is_tracing())
    """,
    "pickle of main": """
        import pickle
        class Mine:
            pass
        print(pickle.dumps(Mine()), type(pickle.loads(pickle.dumps(Mine()))) is Mine)
    """,
    "imports": """
        import importlib, json, sys
        importlib.reload(json)
        print(importlib.util.find_spec("kit"), importlib.util.find_spec("nowhere"))
        print(sys.path_hooks, len(sys.path_importer_cache) > 0)
        import nowhere
    """,
    "runpy": """
        import runpy
        print(sorted(runpy.run_path("kit.py")))
        exec(compile("1 +", "typed", "exec"))
    """,
    "folder is gone": """
        import os, shutil
        os.mkdir("sub"); os.chdir("sub"); shutil.rmtree("../sub")
        import kit
        print(kit.two())
        os.getcwd()
    """,
    "temporary folder is gone": """
        import os, shutil, tempfile
        shutil.rmtree(tempfile.gettempdir()); os.mkdir(tempfile.gettempdir())
    """,
    "temporary folder is gone, no goodbye": """
        import os, shutil, tempfile
        shutil.rmtree(tempfile.gettempdir()); os.mkdir(tempfile.gettempdir())
        os._exit(7)
    """,
    "disk is full": """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        print(end="")
    """,
    "variables": """
        import os
        os.environ["CUDNN_X"] = "1"
        os.putenv(b"CUDNN_Y", b"2")
        os.environb[b"CUDNN_Z"] = b"\\xff"
        print(os.popen("env | grep -a CUDNN_ | sort").buffer.read())
        os.unsetenv("CUDNN_X"); os.environ.clear()
        try:
            os.environ["A=B"] = "x"
        except (OSError, ValueError) as error:
            print(error)
        os.putenv("CUDNN_X", 1)
    """,
    "shadowed modules": """
        import bisect, inspect, json, shlex, signal, tokenize
        print(bisect.mine, inspect.mine, json.mine, shlex.mine, tokenize.mine, signal.SIGINT)
    """,
    "package as a folder": """
        from . import kit
    """,
    "empty": "",
    "bytes": "print(b'\\xff', chr(0xe9))\nopen(1, 'wb', closefd=False).write(b'\\xff\\x00\\n')\n",
    "context variables": """
        import contextvars, locale, random, time
        print(list(contextvars.copy_context()), locale.getlocale())
        random.seed(1); print(random.random(), time.tzname)
    """,
    "site modules": """
        import builtins, sys
        print(sorted(dir(builtins)), sorted(sys.builtin_module_names)[:3], sys.implementation.name)
        print(sys.displayhook, sys.breakpointhook, sys.unraisablehook, sys.get_asyncgen_hooks())
    """,
}
NET = """
    import torch, torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3)
        def forward(self, x):
            return F.conv2d(self.b(F.relu(self.a(x))), torch.ones(1, 4, 1, 1))
    torch.manual_seed(1)
    net, x = Net(), torch.randn(2, 3, 8, 8)
"""
TORCH = {
    "bits": """
        generator = torch.Generator().manual_seed(3)
        optimiser = torch.optim.Adam(net.parameters())
        for step in range(5):
            loss = net(torch.randn(2, 3, 8 + step, 8, generator=generator)).square().mean()
            optimiser.zero_grad(); loss.backward(); optimiser.step()
        torch.save(net.state_dict(), "net.pt")
        print(*(each.double().sum().item().hex() for each in torch.load("net.pt").values()))
        print(torch.get_rng_state().sum(), generator.get_state().sum(), net, sep="\\n")
    """,
    "error in a layer": "net(torch.zeros(1, 2, 8, 8))\n",
    "error in a layer, later": "net(x)\nnet(x)\nnet(torch.zeros(1, 2, 8, 8))\n",
    "error in a hook": """
        net.b.register_forward_hook(lambda *_: 1 / 0)
        try:
            net(x)
        except ZeroDivisionError:
            import traceback; print([each.name for each in traceback.extract_tb(__import__("sys").exc_info()[2])
                                     if "auditing" not in each.filename])
        net.b._forward_hooks.clear()
        net.b.register_full_backward_hook(lambda *_: [].pop())
        net(x).sum().backward()
    """,
    "error of a thread": """
        import threading
        thread = threading.Thread(target=net, args=(torch.zeros(1, 2, 8, 8),), name="mine")
        thread.start(); thread.join()
    """,
    "warning in a convolution is an error": """
        import warnings
        warnings.simplefilter("error")
        F.conv2d(x, torch.ones(4, 3, 2, 2), padding="same")
    """,
    "anomaly": """
        with torch.autograd.detect_anomaly():
            y = net(x)
            (y * float("nan")).sum().backward()
    """,
    "fx": """
        from torch import fx
        graph = fx.symbolic_trace(net)
        print(graph.code, [(each.op, str(getattr(each.target, "__name__", each.target))) for each in graph.graph.nodes])
        print(torch.equal(graph(x), net(x)))
        class Functional(nn.Module):
            def forward(self, x, w):
                return torch.conv2d(x, w, stride=2) + F.conv_transpose2d(x, w.transpose(0, 1))[..., :3, :3]
        print(fx.symbolic_trace(Functional()).graph)
        from torch.fx.experimental.proxy_tensor import make_fx
        print(make_fx(net)(x).code)
    """,
    "jit": """
        import warnings
        warnings.simplefilter("ignore")
        scripted, traced = torch.jit.script(net), torch.jit.trace(net, x)
        print(scripted.code, scripted.graph, torch.equal(scripted(x), traced(x)))
        scripted.save("net.pt")
        print(torch.equal(torch.jit.load("net.pt")(x), net(x)))
        @torch.jit.script
        def alone(x, w):
            return torch.conv2d(x, w) + torch.nn.functional.conv2d(x, w, stride=1)
        print(alone.graph, alone(x, net.a.weight).shape)
    """,
    "func": """
        from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
        w = torch.randn(4, 3, 3, 3)
        print(vmap(lambda each: F.conv2d(each, w))(x[:, None]).sum().item().hex())
        print(grad(lambda w: F.conv2d(x, w).sum())(w).sum().item().hex())
        print(vmap(grad(lambda w, x: F.conv2d(x[None], w).square().sum()), (None, 0))(w, x).shape)
        print(jvp(lambda w: torch.conv2d(x, w), (w,), (w,))[1].sum().item().hex(), jacrev(lambda w: F.conv2d(x, w).sum())(w).shape)
        print(functional_call(net, dict(net.named_parameters()), x).sum().item().hex())
        print(hessian(lambda w: F.conv2d(x[:1, :, :3, :3], w).square().sum())(w[:1]).sum().item().hex())
    """,
    "flops": """
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(net, display=True) as counter:
            net(x).sum().backward()
        print(counter.get_total_flops())
    """,
    "modes": """
        from torch.overrides import TorchFunctionMode
        from torch.utils._python_dispatch import TorchDispatchMode
        class Functions(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                print("function", getattr(func, "__name__", func), len(args), sorted(kwargs or {}))
                return func(*args, **(kwargs or {}))
        class Dispatch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                print("dispatch", func)
                return func(*args, **(kwargs or {}))
        with Functions(), Dispatch():
            net(x)
            torch.conv2d(x, net.a.weight, stride=2)
            F.conv2d(input=x, weight=net.a.weight)
    """,
    "subclass": """
        class Loud(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                print(func.__name__, [each.__name__ for each in types], func in (torch.conv2d, F.conv2d))
                return super().__torch_function__(func, types, args, kwargs)
        loud = x.as_subclass(Loud)
        print(type(F.conv2d(loud, net.a.weight)), type(net(loud)), type(torch.conv2d(x, net.a.weight.as_subclass(Loud))))
        class Other:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return (func.__name__, len(args), kwargs)
        print(torch.conv2d(Other(), Other(), padding=1))
    """,
    "overrides": """
        from torch import overrides
        print(overrides.resolve_name(torch.conv2d), overrides.resolve_name(F.conv_transpose2d))
        print(torch.conv2d in overrides.get_testing_overrides(), F.conv2d in overrides.get_overridable_functions()[torch])
        print(F.conv2d is torch.conv2d, torch.conv2d.__name__, torch.conv2d.__module__, torch.conv2d.__doc__ == F.conv2d.__doc__)
    """,
    "torch's profiler": """
        from torch.profiler import ProfilerActivity, profile, record_function
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found, record_function("mine"):
            net(x).sum().backward()
        print(sorted((each.key, each.count, str(each.input_shapes)) for each in found.key_averages(group_by_input_shape=True)))
    """,
    "autocast": """
        with torch.autocast("cpu", dtype=torch.bfloat16):
            print(net(x).dtype, F.conv2d(x.double(), net.a.weight.double()).dtype)
        with torch.inference_mode():
            print(net(x).is_inference(), net(x).requires_grad)
    """,
    "meta": """
        with torch.device("meta"):
            large = nn.Conv2d(3, 4, 3)
            print(large(torch.empty(1, 3, 8, 8)), F.conv2d(torch.empty(1, 3, 8, 8), large.weight).device)
        large(x)
    """,
    "meta, autocast and fake": """
        from torch._subclasses import FakeTensorMode
        with torch.autocast("cpu", dtype=torch.bfloat16):
            print(net.to("meta")(x.to("meta")[:0]) if False else F.conv2d(x.to("meta"), net.a.weight.to("meta")).dtype)
        with FakeTensorMode() as mode:
            print(F.conv2d(torch.empty(2, 3, 8, 8), torch.empty(4, 3, 3, 3)))
    """,
    "pickles of functional": """
        import copy, functools, pickle
        partial = functools.partial(F.conv2d, stride=2)
        print(pickle.loads(pickle.dumps(partial))(x, net.a.weight).shape, copy.deepcopy(partial)(x, net.a.weight).shape)
        print([len(pickle.dumps(each)) > 0 for each in (torch.conv1d, F.conv3d, F.conv_transpose2d)])
    """,
    "whole model in a file": """
        net(x)
        torch.save(net, "net.pt")
        print(torch.equal(torch.load("net.pt", weights_only=False)(x), net(x)))
        import copy
        print(torch.equal(copy.deepcopy(net)(x), net(x)), type(net).__mro__, callable(net))
    """,
    "loader": """
        from torch.utils.data import DataLoader
        class Data:
            def __len__(self):
                return 6
            def __getitem__(self, at):
                if at == 5:
                    raise IndexError(f"no image {at}")
                return F.conv2d(torch.full((3, 4, 4), float(at)), torch.ones(1, 3, 3, 3))
        for batch in DataLoader(Data(), batch_size=2, num_workers=1):
            print(batch.sum())
    """,
    "loader, spawned": """
        import functools
        from torch.utils.data import DataLoader
        def together(images, call):
            return call(torch.stack(images), torch.ones(1, 3, 3, 3))
        if __name__ == "__main__":
            made = DataLoader([torch.ones(3, 4, 4)] * 4, batch_size=2, num_workers=1, multiprocessing_context="spawn",
                              collate_fn=functools.partial(together, call=F.conv2d))
            print(*(each.sum() for each in made))
    """,
    "torch's spawn": """
        from torch import multiprocessing
        def work(rank):
            print("rank", rank, net(x).shape, flush=True)
            raise ValueError("of a rank")
        if __name__ == "__main__":
            multiprocessing.spawn(work, nprocs=1)
    """,
    "checkpointed": """
        from torch.utils.checkpoint import checkpoint
        checkpoint(net, x.requires_grad_(), use_reentrant=False).sum().backward()
        print(x.grad.sum().item().hex())
        checkpoint(net, x, use_reentrant=True).sum().backward()
        print(x.grad.sum().item().hex())
    """,
    "second derivatives": """
        y = net(x.requires_grad_()).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        print(net.a.weight.grad.sum().item().hex(), y.grad_fn, net.a(x).grad_fn.name())
        print(torch.autograd.gradcheck(lambda w: F.conv2d(x[:1, :1, :4, :4].double(), w), torch.ones(1, 1, 3, 3, dtype=torch.double, requires_grad=True)))
    """,
    "compiled": """
        made = torch.compile(net, backend="eager", fullgraph=True)
        print(torch.equal(made(x), net(x)))
        from torch._dynamo.utils import counters
        print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
        print(torch._dynamo.explain(net)(x).graph_break_count)
    """,
    "exported": """
        print(torch.export.export(net, (x,)).graph_module.code)
    """,
    "quantized": """
        import warnings; warnings.simplefilter("ignore")
        from torch.ao.quantization import get_default_qconfig_mapping
        from torch.ao.quantization.quantize_fx import prepare_fx
        print(prepare_fx(net.eval(), get_default_qconfig_mapping(), (x,)).code)
    """,
    "parametrized": """
        from torch.nn.utils import parametrizations, prune
        parametrizations.weight_norm(net.a)
        prune.l1_unstructured(net.b, "weight", 0.5)
        print(net(x).sum().item().hex(), type(net.a).__mro__[:2])
    """,
    "hooks": """
        nn.modules.module.register_module_forward_hook(lambda module, args, out: print(type(module).__name__, len(args)))
        net(x)
        Net.__call__ = lambda self, x: print("mine") or self.forward(x)
        net(x)
    """,
    "call of its own": """
        class Own(Net):
            def __call__(self, x, times):
                return super().__call__(x) * times
        print(Own()(x, 2).sum().item().hex(), Own()(x=x, times=2).shape)
    """,
    "misuse": """
        for misuse in (lambda: F.conv2d(), lambda: F.conv2d(x), lambda: F.conv2d(x, 3), lambda: F.conv2d(1, 2),
                       lambda: F.conv2d(x, net.a.weight, stryde=2), lambda: F.conv2d(x, net.a.weight, None, {}),
                       lambda: F.conv2d(x.to_sparse(), net.a.weight), lambda: F.conv2d(x.int(), net.a.weight),
                       lambda: F.conv2d(x, net.a.weight, input=x), lambda: F.conv2d(None, None),
                       lambda: F.conv2d(x, net.a.weight, padding="odd"), lambda: F.conv2d(x, net.a.weight, stride=-1)):
            try:
                print(misuse())
            except Exception as error:
                print(type(error).__name__, error)
        F.conv2d(x, net.a.weight, 1, 2, 3, 4, 5, 6, 7)
    """,
    "flags of cudnn": """
        from torch.backends import cudnn
        with cudnn.flags(benchmark=True, deterministic=True):
            print(cudnn.benchmark, cudnn.deterministic, net(x).sum().item().hex())
        print(cudnn.benchmark, cudnn.is_available(), cudnn.version(), type(cudnn).__name__, cudnn.m if hasattr(cudnn, "m") else 0)
        torch.backends.cudnn.conv.fp32_precision = "tf32"
        net(x)
        try:
            cudnn.nothing
        except AttributeError as error:
            print(error)
        cudnn.benchmark = "yes"
    """,
    "flags are frozen": """
        torch.backends.disable_global_flags()
        torch.backends.cudnn.benchmark = True
    """,
    "generator": """
        def batches():
            try:
                while True:
                    yield net(x).sum()
            finally:
                print("closed")
        for number, loss in enumerate(batches()):
            loss.backward()
            if number == 2:
                break
        del loss
        import gc; gc.collect()
        print(sum(isinstance(each, Net) for each in gc.get_objects()))
    """,
    "freed": """
        import weakref
        y = net(x)
        ends = [weakref.ref(each) for each in (net, y, x)]
        del net, y, x
        print([each() for each in ends])
    """,
    "warnings are errors, torch": "net(x).sum().backward()\nprint('fine')\n",
    "imported again": """
        import importlib, sys
        print(torch.__spec__.loader, torch.__loader__ is torch.__spec__.loader, torch.__spec__.name)
        print(importlib.util.find_spec("torch").origin == torch.__file__)
        print(F.conv2d(x, net.a.weight).shape)
    """,
}
SCRIPTS = {
    **{name: textwrap.dedent(text) for name, text in PYTHON.items()},
    **{f"torch: {name}": textwrap.dedent(NET) + textwrap.dedent(text) for name, text in TORCH.items()},
    **{f"argparse {words}": textwrap.dedent(PYTHON["argparse"]) for words in ("--help", "--epochs x y", "--epochs 3 y")},
}  # fmt: skip
ARGUMENTS = {name: name.split()[1:] for name in SCRIPTS if name.startswith("argparse ")}
STDIN = {"stdin": "one\ntwo\nthree\n", "debugger": "p x\nw\nn\nc\n"}
ENVIRONMENT = {
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "torch: warnings are errors, torch": {"PYTHONWARNINGS": "error"},
    "hash seed": {"PYTHONHASHSEED": "3"},
    "warnings": {"PYTHONDEVMODE": "1"},
    "flags and surroundings": {"PYTHONPATH": "/nowhere", "PYTHONOPTIMIZE": "1"},
    "bytes": {"PYTHONIOENCODING": "latin-1"},
}
KIT = "def two():\n    return 2\n"
FILES = {
    "indentation in a module": {"kit.py": "def f():\nreturn 1\n"},
    "shadowed modules": {
        f"{name}.py": "mine = bisect_left = bisect_right = loads = quote = True\n"
        for name in ("bisect", "inspect", "json", "shlex", "tokenize")
    },
}


class Runs:
    """Runs a script in a folder of its own: the same name, and the same files, each time."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[bytes]) -> None:
        self._folder = folder
        self._captured = captured

    def of(self, name: str, run: Callable[[list[str]], int]) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error."""
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "tmp").mkdir(parents=True)
        texts = {"kit.py": KIT, "script.py": SCRIPTS[name], "stdin": STDIN.get(name, "")}
        for file, text in (texts | FILES.get(name, {})).items():
            (self._folder / file).write_text(text)
        with pytest.MonkeyPatch.context() as patch, _stdin(self._folder / "stdin"):
            patch.chdir(self._folder)
            patch.setenv("TMPDIR", str(self._folder / "tmp"))
            patch.setattr("tempfile.tempdir", str(self._folder / "tmp"))
            for variable, value in ENVIRONMENT.get(name, {}).items():
                patch.setenv(variable, value)
            self._captured.readouterr()
            code = run(ARGUMENTS.get(name, []))
        out, err = (OF_A_PROCESS.sub(b"", text) for text in self._captured.readouterr())
        return code, out, err


@contextmanager
def _stdin(file: Path) -> Iterator[None]:
    before = os.dup(0)
    with file.open() as opened:
        os.dup2(opened.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def plainly(arguments: list[str]) -> int:
    words = [sys.executable, "script.py", *arguments]
    environment = dict(os.environ)  # without what C code has put beside it, as for the audited one
    done = subprocess.run(words, env=environment, check=False, timeout=LONG_S)
    return done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode


def audited(arguments: list[str]) -> int:
    request = AuditRequest(
        script="script.py",
        is_module=False,
        arguments=tuple(arguments),
        seconds=LONG_S,
        steps=None,
    )
    return audit_script(request).exit_code


def test_audit_ends_and_prints_as_plain_python(
    tmp_path: Path, attempts: Attempts, seed: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    runs, differ = Runs(tmp_path / "here", capfdbinary), {}
    chosen = random.Random(seed).sample(list(SCRIPTS), attempts(8, len(SCRIPTS)))
    for name in chosen:
        without, under = runs.of(name, plainly), runs.of(name, audited)
        if without != under:
            differ[name] = "\n".join(difflib.unified_diff(_lines(without), _lines(under)))
    print(f"{len(chosen)} scripts")
    assert not differ, "\n\n".join(f"{name}\n{told}" for name, told in differ.items())


def _lines(ended: tuple[int, bytes, bytes]) -> list[str]:
    code, out, err = ended
    return [f"exit code {code}", *map(repr, out.splitlines()), *map(repr, err.splitlines())]
