import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { makeCertificate } from '../clients/certificate.ts'
import { waitUntil } from '../run/wait-until.ts'

/** A reverse proxy as `ops/` configures it. */
export interface ReverseProxy {
  readonly url: string
  stop(): Promise<void>
}

interface Place {
  readonly port: number
  readonly folder: string
  /** Host and port of the gateway. */
  readonly gateway: string
}

const ops = resolve(import.meta.dir, '../../../ops')

/** Throws where a text to replace is not there: then the file is no longer the one that this was written for. */
function adapted(file: string, changes: readonly (readonly [from: string, to: string])[]): string {
  let text = readFileSync(join(ops, file), 'utf8')
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`${file} has no ${from}`)
    text = text.replaceAll(from, to)
  }
  return text
}

function nginxConfig({ port, folder, gateway }: Place): string {
  const { cert, key } = makeCertificate('llm.example.com')
  writeFileSync(join(folder, 'cert.pem'), cert)
  writeFileSync(join(folder, 'key.pem'), key)
  const live = '/etc/letsencrypt/live/llm.example.com'
  const site = adapted('nginx.conf', [
    ['server 127.0.0.1:7070;', `server ${gateway};`],
    ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
    ['listen 80;', `listen unix:${folder}/redirect;`],
    [`${live}/fullchain.pem`, `${folder}/cert.pem`],
    [`${live}/privkey.pem`, `${folder}/key.pem`],
  ])
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ')
  return `daemon off; pid ${folder}/pid; error_log ${folder}/errors; worker_processes 1; user root;
events {}
http { access_log off; ${temporary}
${site}
}
`
}

const caddyConfig = ({ port, gateway }: Place) =>
  `{
	admin off
}
${adapted('Caddyfile', [
  ['llm.example.com {', `http://127.0.0.1:${port} {`],
  ['reverse_proxy 127.0.0.1:7070', `reverse_proxy ${gateway}`],
])}`

const kinds = {
  nginx: {
    scheme: 'https',
    config: nginxConfig,
    command: (file: string) => ['nginx', '-e', '/dev/null', '-c', file],
  },
  caddy: {
    scheme: 'http',
    config: caddyConfig,
    command: (file: string) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
  },
} as const
export type ProxyKind = keyof typeof kinds
export const proxyKinds = Object.keys(kinds) as readonly ProxyKind[]

/** Its program must be installed. */
export async function startProxy(kind: ProxyKind, gatewayUrl: string): Promise<ReverseProxy> {
  const { scheme, config, command } = kinds[kind]
  const folder = mkdtempSync(join(tmpdir(), 'penstock-proxy-'))
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } })
  const { port } = listener
  listener.stop(true)
  const file = join(folder, 'config')
  writeFileSync(file, config({ port, folder, gateway: new URL(gatewayUrl).host }))
  const child = Bun.spawn(command(file), {
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const url = `${scheme}://127.0.0.1:${port}`
  await waitUntil(`${kind} to serve`, async () => {
    if (child.exitCode !== null) throw new Error(`${kind} does not start`)
    return (await throughProxy(`${url}/readyz`).catch(() => null))?.status === 200
  })
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Its certificate is made for the run. */
export const throughProxy = (url: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url, { ...init, tls: { rejectUnauthorized: false } } as RequestInit)
