"""What the training steps in PyTorch share, for `cryolite bench --peers` and tools/gpu_check: the same work as ours, as
fast as PyTorch does it, on the CPU or on a GPU.

A script reads its arguments here, before it imports torch, and gives its model to `run`, which warms up, prints a line,
and then answers every number of steps on stdin with {"times": [seconds, ...]}.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# With huge pages, and without memory that goes back to the system after each step, steps are faster than with the
# allocator's defaults. glibc reads this at its start only.
TUNED = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592",
    "THP_MEM_ALLOC_ENABLE": "1",
}
OWN_FOLDER = "CRYOLITE_PEER_FOLDER"


def avx512_of_mkl():
    """On AMD's processors MKL takes its AVX2 code even if they have AVX-512, with which it is far faster. Returns the
    variables of an environment in which it takes AVX-512."""
    with open("/proc/cpuinfo") as file:
        about = file.read()
    if "AuthenticAMD" not in about or "avx512f" not in about:
        return {}
    folder = tempfile.mkdtemp(prefix="cryolite-peer-")
    library = os.path.join(folder, "mkl.so")
    subprocess.run([os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                   input=b"int mkl_serv_intel_cpu_true(void) { return 1; }")
    return {"LD_PRELOAD": library, OWN_FOLDER: folder}


def begin_tuned():
    """Starts this process once more with the allocator and MKL at their best."""
    if "cuda" not in sys.argv and os.environ.get("THP_MEM_ALLOC_ENABLE") != "1":
        os.execve(sys.executable, [sys.executable, "-W", "ignore", *sys.argv],
                  {**os.environ, **TUNED, **avx512_of_mkl()})
    if OWN_FOLDER in os.environ:  # it is loaded now; compilers that this process starts must not load it
        del os.environ["LD_PRELOAD"]
        shutil.rmtree(os.environ.pop(OWN_FOLDER))


def arguments(**model):
    """Reads the arguments of every step, and the model's own, which are given with their defaults. The value of a bool
    is the word false or true."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("eager", "compile", "backward", "graph"), default="eager")
    step = dict(batch=4, threads=2, lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=0.0)
    for name, value in {**step, **model}.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parser.add_argument(flag, choices=("false", "true"), default=str(value).lower())
        else:
            parser.add_argument(flag, type=type(value), default=value)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw")
    begin_tuned()
    a = parser.parse_args()
    if a.mode == "graph" and a.device != "cuda":
        parser.error("--mode graph needs --device cuda")
    return a


def make_optimizer(a, parameters):
    import torch
    decay = [p for p in parameters if p.dim() > 1]
    plain = [p for p in parameters if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": a.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    if a.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=a.lr, momentum=a.beta1, fused=True)
    return torch.optim.AdamW(groups, lr=a.lr, betas=(a.beta1, a.beta2), eps=a.eps, fused=True,
                             capturable=a.mode == "graph")


def as_graph(step, forget):
    """The step as one CUDA graph, which is launched without PyTorch's own work on the host."""
    import torch
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            forget()
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    forget()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


class InBackward:
    """The optimizer in backward: each parameter is updated, and its gradient dropped, as soon as that is whole.

    Clipping needs all gradients before the first update, so it takes two backward passes, as in LOMO (Lv et al., 2023):
    one for the norm, one for the updates.
    """

    def __init__(self, a, model):
        self.clip, self.scale, self.square = a.clip, 1.0, None
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(lambda q, o=make_optimizer(a, [p]): self.whole(q, o))

    def whole(self, p, optimizer):
        if self.square is not None:
            self.square += float(p.grad.square().sum())
        else:
            if self.scale < 1:
                p.grad.mul_(self.scale)
            optimizer.step()
        p.grad = None

    def backward(self, loss):
        if self.clip:
            self.square = 0.0
            loss.backward(retain_graph=True)
            self.scale, self.square = min(1.0, self.clip / (self.square**0.5 + 1e-6)), None
        loss.backward()


def token_batch(a):
    """(tokens, targets), both [batch, context]."""
    import torch
    return torch.randint(a.vocab, (2, a.batch, a.context), device=a.device).unbind(0)


def run(a, make_model, make_batch=token_batch):
    """Runs steps of the module `make_model(a)`, which returns the loss of a batch that `make_batch(a)` makes."""
    import torch

    # If memory runs out, the system is to end this process first.
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    if a.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    model = make_model(a).to(a.device)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, 0, 0.02)
    if a.mode == "backward":
        in_backward = InBackward(a, model)
    else:
        optimizer = make_optimizer(a, list(model.parameters()))
    forward = torch.compile(model) if a.mode in ("compile", "graph") else model
    batch = make_batch(a)

    def loss_of_batch():
        # In a graph each step has to cast the weights anew.
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.precision == "bf16",
                            cache_enabled=a.mode != "graph"):
            return forward(*batch)

    def step():
        if a.mode == "backward":
            return in_backward.backward(loss_of_batch())
        if a.mode != "graph":
            optimizer.zero_grad(set_to_none=True)
        loss_of_batch().backward()
        if a.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        optimizer.step()

    if a.mode == "graph":
        step = as_graph(step, lambda: optimizer.zero_grad(set_to_none=True))

    def whole_step():
        step()
        if a.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        whole_step()
    print(json.dumps({"ready": "torch " + torch.__version__}), flush=True)
    for line in sys.stdin:
        times = []
        whole_step()  # not timed, as the steps of the others have emptied the caches
        for _ in range(int(line)):
            start = time.perf_counter()
            whole_step()
            times.append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        answer = {"times": times, "best_s": min(times), "median_s": statistics.median(times), "peak_rss_mb": peak}
        if a.device == "cuda":
            answer["device_bytes"] = torch.cuda.max_memory_allocated()
        print(json.dumps(answer), flush=True)
