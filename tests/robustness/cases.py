"""The table: which command takes which family of files where, and all that can be given wrongly to each."""

from __future__ import annotations

from typing import NamedTuple

from tests.robustness.damage import FAMILIES


class Case(NamedTuple):
    """A command line with something wrong in it. ``GOOD`` and ``BAD`` are the folders of files."""

    line: str
    wrong: str  # what the complaint must name

    @property
    def arguments(self) -> list[str]:
        return self.line.split()


DATA = "--dataset pf-pascal --root GOOD/data/PF-PASCAL"
PAIR = "GOOD/png.png GOOD/jpg.jpg"
POINTS = "--points GOOD/points.json"
ANNOTATE = f"annotate GOOD/png.png GOOD/photos {POINTS}"

# Where a file is read: {} stands for it. Each is tried with every kind of damage of its family. All commands
# read heads and weights in one way: every kind is tried in two places, and a few in the others.
READERS: tuple[tuple[str, str], ...] = (
    ("photo", "match {} GOOD/jpg.jpg --json out.json"),
    ("photo", "match GOOD/png.png {} --out out.png"),
    ("photo", "analyse --pair {} GOOD/jpg.jpg --out out"),
    ("photo", "analyse --pair GOOD/png.png {} --out out"),
    ("points", f"match {PAIR} --json out.json --points {{}}"),
    ("points", f"match {PAIR} --out out.png --style truth --points GOOD/points.json --truth {{}}"),
    ("points", f"analyse --pair {PAIR} --out out --points {{}}"),
    ("table", f"match {PAIR} --json out.json --points {{}}"),
    ("pairs", "match-many {} --out out"),
    ("predictions", "score {} --json out.json"),
    ("predictions", "compare {} GOOD/q.npz --json out.json"),
    ("predictions", "compare GOOD/p.npz {} --json out.json"),
    ("predictions", "analyse GOOD/p.npz {} --out out"),
    ("names", "score GOOD/p.npz --train-list {} --csv out.csv"),
    ("names", f"evaluate {DATA} --train-list {{}} --out out.npz"),
    ("recipe", "train {} --out out"),
    ("head", f"match {PAIR} --json out.json --model {{}}"),
    ("few-heads", "match-many GOOD/pairs.csv --out out --model {}"),
    ("few-heads", f"predict {DATA} --out out.npz --model {{}}"),
    ("few-heads", f"evaluate {DATA} --json out.json --model {{}}"),
    ("few-heads", f"beam-search {DATA} --json out.json --model {{}}"),
    ("few-heads", f"analyse {DATA} --out out --model {{}}"),
    ("head", "ship {} out.safetensors --summary s --data d"),
    ("few-heads", "web --port 0 --model {}"),
    ("few-heads", "train GOOD/recipe.toml --out out --features out --set model.start={}"),
    ("recipe-in-head", f"match {PAIR} --json out.json --model {{}}"),
    ("recipe-in-head", "ship {} out.safetensors --summary s --data d"),
    ("weights", f"match {PAIR} --json out.json --model hpf-resnet50 --backbone {{}}"),
    ("few-weights", f"predict {DATA} --out out.npz --model hpf-resnet50 --backbone {{}}"),
    ("few-weights", "web --port 0 --model hpf-resnet50 --backbone {}"),
    ("weights", "import-checkpoint {} out.safetensors"),
    ("tensors", f"match {PAIR} --json out.json --model hpf-resnet50 --backbone {{}}"),
    ("tensors", "import-checkpoint {} out.safetensors"),
    ("photo", f"match-many {{}} GOOD/photos {POINTS} --out out"),
    ("photo", f"annotate {{}} GOOD/photos {POINTS} --out out.json"),
    ("points", "annotate GOOD/png.png GOOD/photos --points {} --out out.json"),
    ("annotations", "annotate {} GOOD/photos --images GOOD --out out.json"),
    ("annotations", "annotate GOOD/references.json {} --images GOOD --out out.json"),
    ("annotations", "convert {} --out out.xml --format cvat"),
    ("annotations", "web --port 0 --annotations {} --images GOOD"),
    ("annotations", "web --port 0 --annotations GOOD/references.json --images GOOD --references {}"),
    ("xml", "annotate {} GOOD/photos --images GOOD --out out.json"),
    ("xml", "convert {} --out out.json"),
    ("few-heads", "annotate GOOD/references.json GOOD/photos --out out.json --model {}"),
    ("root", "predict --dataset pf-pascal --root {} --out out.npz"),
    ("root", "evaluate --dataset spair-71k --root {} --json out.json"),
    ("root", "beam-search --dataset pf-willow --split test --root {} --json out.json"),
    ("root", "analyse --dataset caltech-101 --root {} --out out"),
    ("root", "train GOOD/recipe.toml --out out --set data.root={}"),
    ("root", "data check {}"),
)

# What is written: {} stands for the output, the rest names the inputs that it must not replace.
WRITERS: tuple[str, ...] = (
    f"match {PAIR} --points GOOD/points.json --model GOOD/head.safetensors --json {{}}",
    f"match {PAIR} --points GOOD/points.json --model GOOD/head.safetensors --out {{}}",
    f"match {PAIR} --points GOOD/points.json --model GOOD/head.safetensors --flow {{}}",
    f"match {PAIR} --points GOOD/points.json --backbone GOOD/weights.pth --warp {{}}",
    "score GOOD/p.npz --train-list GOOD/trained.txt --root GOOD/data/PF-PASCAL --json {}",
    "score GOOD/p.npz --train-list GOOD/trained.txt --root GOOD/data/PF-PASCAL --csv {}",
    "score GOOD/p.npz --train-list GOOD/trained.txt --root GOOD/data/PF-PASCAL --markdown {}",
    "score GOOD/p.npz --train-list GOOD/trained.txt --root GOOD/data/PF-PASCAL --html {}",
    "compare GOOD/p.npz GOOD/q.npz --json {}",
    f"match {PAIR} --points GOOD/points.csv --truth GOOD/truth.json --csv {{}}",
    f"{ANNOTATE} --model GOOD/head.safetensors --backbone GOOD/weights.pth --out {{}}",
    f"{ANNOTATE} --out out.json --model GOOD/head.safetensors --contact-sheet {{}}",
    "annotate GOOD/references.json GOOD/photos --out {}",
    "convert GOOD/references.json --format csv --out {}",
    f"predict {DATA} --model GOOD/head.safetensors --backbone GOOD/weights.pth --out {{}}",
    f"evaluate {DATA} --train-list GOOD/trained.txt --model GOOD/head.safetensors --out {{}}",
    f"evaluate {DATA} --train-list GOOD/trained.txt --model GOOD/head.safetensors --html {{}}",
    f"evaluate {DATA} --train-list GOOD/trained.txt --model GOOD/head.safetensors --json {{}}",
    f"beam-search {DATA} --model GOOD/head.safetensors --backbone GOOD/weights.pth --json {{}}",
    "ship GOOD/head.safetensors {} --summary s --data d",
    "import-checkpoint GOOD/weights.pth {}",
)
A_FILE_OF_THE_DATA = "GOOD/data/PF-PASCAL/test_pairs.csv"
PLACES = (
    "none/out.{}",
    "BAD/points/null.json/out.{}",
    "/proc/out.{}",
    "BAD/places/folder.{}",
    "BAD/places/circle.{}",
    "BAD/places/pipe.{}",
)
FOLDERS = (
    "match-many GOOD/pairs.csv --out {}",
    f"analyse --pair {PAIR} --out {{}}",
    "analyse GOOD/p.npz --out {}",
    "train GOOD/recipe.toml --out {}",
    "data mini pf-pascal {}",
    "annotate GOOD/references.json GOOD/photos --out out.json --features {}",
)
NO_FOLDERS = ("GOOD/png.png", "GOOD/png.png/out", "/proc/out", "BAD/places/circle.npz", "BAD/places/pipe.npz")

MODEL_OPTIONS = (
    f"match {PAIR} --json out.json",
    "match-many GOOD/pairs.csv --out out",
    "annotate GOOD/references.json GOOD/photos --out out.json",
    f"predict {DATA} --out out.npz",
    f"evaluate {DATA} --json out.json",
    f"beam-search {DATA} --json out.json",
    f"analyse --pair {PAIR} --out out",
    "web --port 0",
)
NO_MODELS = (
    "--model=",
    "--model=banana",
    "--model=hpf-resnet5",
    "--size=",
    "--size=large",
    "--size=2000",
    "--size=-5",
    "--size=1x2x3",
    "--device=gpu",
    "--device=cuda:99",
    "--device=meta",
)

SETTINGS = (
    "optimiser.rate=1e30",
    "optimiser.rate=-1",
    "optimiser.rate=nan",
    "run.seed=-1",
    "run.seed=1e99",
    "run.epochs=0",
    "run.batch=0",
    "run.batch=x",
    "run.save_every=0",
    "run.cache_gb=-1",
    "name=../out",
    "name=",
    "data.holdout=1",
    "data.train=[]",
    "augment.mirror=2",
    "augment.crop=0.9",
    "loss.mu=x",
    "loss.mu=1e999",
    "head.gating=maybe",
    "model.init=magic",
    "nothing=1",
    "run=1",
    "run.epochs",
    "=1",
)

OPTIONS: tuple[tuple[str, str], ...] = (
    ("mach a b", "mach"),
    ("match", "two photos"),
    ("match GOOD/png.png", "two photos"),
    ("match --sample dogs", "dogs"),
    (f"match {PAIR} --sample cats", "--sample"),
    (f"match {PAIR} more", "more"),
    (f"match {PAIR} --nonsense", "--nonsense"),
    (f"match {PAIR} --out out.txt", "out.txt"),
    (f"match {PAIR} --flow out.npy", "out.npy"),
    (f"match {PAIR} --out same.png --warp same.png", "same.png"),
    (f"match {PAIR} --out out.png --style magic", "magic"),
    (f"match {PAIR} --json out.json --style flow", "--style"),
    (f"match {PAIR} --out out.png --style truth", "truth"),
    (f"match {PAIR} --json - --flow -", "-"),
    ("match https://example.org/a.jpg GOOD/jpg.jpg", "https://example.org/a.jpg"),
    ("match-many GOOD/photos --out GOOD/photos", "GOOD/photos"),
    ("match-many GOOD/photos", "--out"),
    ("match-many GOOD/photos --out out --cache 0", "--cache"),
    ("match-many GOOD/photos --out out --style flow", "--style"),
    ("match-many GOOD/photos --out out --draw --style magic", "magic"),
    ("match-many BAD/root/empty --out out", "BAD/root/empty"),
    (f"predict {DATA}", "--out"),
    (f"predict {DATA} --out out.npz --limit 0", "--limit"),
    (f"predict {DATA} --out out.npz --workers 0", "--workers"),
    (f"predict {DATA} --out out.npz --cache -1", "--cache"),
    (f"predict {DATA} --out out.npz --split none", "none"),
    (f"predict {DATA} --out out.npz --layout small", "small"),
    (f"predict {DATA} --out out.npz --direction up", "up"),
    ("predict --dataset imagenet --root GOOD/data --out out.npz", "imagenet"),
    ("predict --dataset coco --root GOOD/data --out out.npz", "coco"),
    (f"evaluate {DATA} --protocol magic", "magic"),
    (f"evaluate {DATA} --alpha -1 --out out.npz", "-1"),
    (f"evaluate {DATA} --alpha nan --out out.npz", "nan"),
    (f"evaluate {DATA} --set average=none", "none"),
    (f"evaluate {DATA} --out same.npz --json same.npz", "same.npz"),
    (f"evaluate {DATA} --json same --csv same", "same"),
    ("score GOOD/p.npz --alpha x", "--alpha"),
    ("score GOOD/p.npz --alpha nan", "nan"),
    ("score GOOD/p.npz --alpha inf", "inf"),
    ("score GOOD/p.npz --alpha 0", "0"),
    ("score GOOD/p.npz --protocol magic", "magic"),
    ("score GOOD/p.npz --set average", "average"),
    ("score GOOD/p.npz --set average=none", "none"),
    ("score GOOD/p.npz --set nothing=1", "nothing"),
    ("score GOOD/p.npz --json out.json --csv out.json", "out.json"),
    ("score GOOD/p.npz --json - --html -", "-"),
    ("compare GOOD/p.npz GOOD/p.npz --alpha nan", "nan"),
    ("compare GOOD/p.npz", "B.npz"),
    (f"beam-search {DATA} --beam 0", "--beam"),
    (f"beam-search {DATA} --every 0", "--every"),
    (f"beam-search {DATA} --max-layers 0", "--max-layers"),
    (f"beam-search {DATA} --alpha nan --json out.json", "nan"),
    (f"beam-search {DATA} --exclude-pairs-of none", "none"),
    ("analyse", "predictions"),
    ("analyse GOOD/p.npz GOOD/p.npz --out out", "twice"),
    ("analyse GOOD/p.npz --model hpf-resnet50 --out out", "--model"),
    ("analyse --dataset pf-pascal --out out", "--root"),
    ("analyse GOOD/p.npz --points GOOD/points.json --out out", "--points"),
    (f"analyse --pair {PAIR} --model a --model b --out out", "--model"),
    (f"analyse {DATA} --model hpf-resnet50 --timed-pairs 0 --out out", "--timed-pairs"),
    ("annotate GOOD/references.json", "FOLDER"),
    ("annotate GOOD/references.json GOOD/photos --out -", "-"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --contact-sheet out.json", "out.json"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --format magic", "magic"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --min-confidence nan", "nan"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --references 0", "--references"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --cache 0", "--cache"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --images none", "none"),
    ("annotate GOOD/references.json GOOD/photos --out out.json --flip up", "up"),
    ("annotate GOOD/references.json BAD/root/empty --out out.json", "BAD/root/empty"),
    ("annotate GOOD/png.png GOOD/photos --out out.json", "--points"),
    ("annotate GOOD/png.png GOOD/photos --points 1e9,1 --out out.json", "1e9,1"),
    (f"annotate none.png GOOD/photos {POINTS} --out out.json", "none.png"),
    ("convert GOOD/references.json", "--out"),
    ("convert GOOD/references.json --out out.json --format magic", "magic"),
    ("convert GOOD/png.png --out out.json", "GOOD/png.png"),
    ("web --port 0 --annotations GOOD/references.json", "--images"),
    ("web --port 0 --images GOOD", "--annotations"),
    ("web --port 0 --references GOOD/references.json", "--annotations"),
    ("web --port 0 --annotations GOOD/references.json --images BAD/root/empty", "photos/0.png"),
    ("web --port 0 --annotations GOOD/references.json --images GOOD/png.png", "GOOD/png.png"),
    (
        "train GOOD/recipe.toml --out GOOD/begun --set model.start=GOOD/begun/best.safetensors",
        "best.safetensors",
    ),
    ("train nothing", "nothing"),
    ("train nothing.toml", "nothing.toml"),
    ("train GOOD/recipe.toml --out out --set run.device=gpu", "gpu"),
    ("train GOOD/recipe.toml --out out --set data.train=['nothing/val']", "nothing"),
    ("train GOOD/recipe.toml --out out --set data.train=['folder:nowhere']", "nowhere"),
    ("train GOOD/recipe.toml --out out --set data.train=['pseudo:pf-pascal']", "pf-pascal"),
    ("train GOOD/recipe.toml --out out --set model.method=magic", "magic"),
    ("train GOOD/recipe.toml --out out --set model.size=[0,0]", "0x0"),
    ("data nothing", "nothing"),
    ("data check", "root"),
    ("data download imagenet", "imagenet"),
    ("data download coco", "coco"),
    ("data mini imagenet out", "imagenet"),
    ("data mini pf-pascal GOOD/photos", "GOOD/photos"),
    ("data mini pf-pascal out --seed -1", "--seed"),
    ("data mini pf-pascal out --seed x", "--seed"),
    ("ship GOOD/head.safetensors out.pt --summary s --data d", "out.pt"),
    ("ship GOOD/head.safetensors out.safetensors --summary s", "--data"),
    ("import-checkpoint GOOD/weights.pth out.pt", "out.pt"),
    ("import-checkpoint GOOD/weights.pth out.safetensors --backbone vgg", "GOOD/weights.pth"),
    ("models more", "more"),
    ("web --port -1", "--port"),
    ("web --port 65536", "--port"),
    ("web --port x", "--port"),
    ("web --host no.such.host.invalid", "no.such.host.invalid"),
    ("web --host 192.0.2.1", "192.0.2.1"),
    ("web --port 0 --host .", "."),
)


def _suffix(line: str) -> str:
    """What an output must end in, lest its ending is what is refused."""
    option = line.split()[-2]
    if line.startswith(("ship", "import")):
        return "safetensors"
    if line.startswith("match") and option in ("--out", "--warp"):
        return "png"
    return "npz" if option in ("--out", "--flow") else "json"


def inputs_of(line: str) -> list[str]:
    """The input files that a command line names."""
    files = [word for word in line.split() if word.startswith("GOOD/") and "." in word]
    return [*files, A_FILE_OF_THE_DATA] if "--root" in line else files


def table() -> list[Case]:
    """All cases."""
    cases = []
    for family, line in READERS:
        ending, kinds = FAMILIES[family]
        for kind in kinds:
            bad = f"BAD/{family}/{kind}{ending}"
            cases.append(Case(line.format(bad), bad))
    for line in WRITERS:
        suffix = _suffix(line)
        for place in PLACES:
            cases.append(Case(line.format(place.format(suffix)), place.format(suffix)))
        for name in inputs_of(line):
            cases.append(Case(line.format(name), name))
            for kind in ("soft", "hard"):  # the same file by another name, of an ending that is allowed
                alias = f"BAD/places/{kind}-{name.replace('/', '-')}.{suffix}"
                cases.append(Case(line.format(alias), alias))
    cases += [Case(line.format(place), place) for line in FOLDERS for place in NO_FOLDERS]
    cases += [
        Case(f"{line} {option}", option.split("=")[1]) for line in MODEL_OPTIONS for option in NO_MODELS
    ]
    cases += [
        Case(f"train GOOD/recipe.toml --out out --features out --set {change}", change.split("=")[0])
        for change in SETTINGS
    ]
    cases += [Case(line, wrong) for line, wrong in OPTIONS]
    return cases
