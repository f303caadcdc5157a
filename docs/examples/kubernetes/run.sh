cd "$(dirname "$0")" && sweep launch launch.yaml
