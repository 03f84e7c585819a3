import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startEmbedded } from '../src/db/embedded/embedded.ts'
import { createLog } from '../src/log.ts'
import { columns, show } from './columns.ts'
import { CpuShare } from './cpu-share.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { servingPids } from './processes.ts'
import { circumstances } from './results.ts'
import { build, launch, RigError, startMock, stopAll, temporaryFolder, until } from './rig.ts'
import { markdown, median } from './table.ts'
import { type Admin, adminWith, freePort, furnish, ordinary, startGateway, type Target } from './targets.ts'

const counts = [1, 2, 3] as const
type Count = (typeof counts)[number]
const processes = 2
/** Of one core, for each process. */
const shareCores = 0.1
const connectionsMax = 150
const settleMs = 150
const conns = ['--conns', '192']
const loads = {
  chat: ['--mode', 'json', ...conns],
  'streams of 5 chunks': ['--mode', 'stream', ...conns, '--n', '5', '--us', '0'],
} as const
type LoadName = keyof typeof loads
const loadNames: readonly LoadName[] = ['chat', 'streams of 5 chunks']

const secret = () => randomBytes(32).toString('hex')

async function startNginx(folder: string, ports: readonly string[]): Promise<string> {
  const port = freePort()
  const conf = join(folder, `nginx-${ports.length}.conf`)
  const servers = ports.map((each) => `server 127.0.0.1:${each};`).join(' ')
  writeFileSync(
    conf,
    `pid ${folder}/nginx-${ports.length}.pid; error_log stderr crit; worker_processes 1; daemon off;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/f;
  uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  upstream gateways { ${servers} keepalive 256; keepalive_requests 1000000; }
  server { listen 127.0.0.1:${port}; keepalive_requests 1000000;
    location / { proxy_pass http://gateways; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } }
}
`,
  )
  launch(['nginx', '-c', conf, '-p', folder])
  const url = `http://127.0.0.1:${port}`
  await until('nginx', async () => (await fetch(`${url}/healthz`)).ok)
  return url
}

interface Started {
  readonly url: string
  readonly pid: number
  readonly admin: Admin
}

async function startGateways(folder: string, databaseUrl: string): Promise<readonly Started[]> {
  const token = secret()
  const secrets = ['TOKEN_PEPPER', 'SECRETS_KEY', 'AUDIT_KEY', 'ROUTER_KEY', 'WEBHOOK_KEY', 'LOG_KEY']
  const env = {
    DATABASE_URL: databaseUrl,
    SVC_PROCESSES: String(processes),
    SVC_ADMIN_TOKENS: token,
    SVC_DRAIN_MS: '300',
    ...Object.fromEntries(secrets.map((name) => [`SVC_${name}`, secret()])),
  }
  const started: Started[] = []
  for (const count of counts) {
    const { program, url } = await startGateway(join(folder, `${count}`), join(folder, `${count}.log`), null, env)
    started.push({ url, pid: program.pid, admin: adminWith(url, token) })
  }
  return started
}

/** A key that all of them know, when the node is ready for each. */
async function keyFor(gateways: readonly Started[], nodeUrl: string): Promise<string> {
  const [first] = gateways
  if (first === undefined) throw new RigError('no gateway')
  const key = await furnish(first.admin, [nodeUrl], false)
  for (const { admin } of gateways) {
    await until('the node to be ready', async () => {
      const { nodes } = await admin<{ readonly nodes: readonly { readonly state: string }[] }>('GET', '/nodes')
      return nodes.length > 0 && nodes.every(({ state }) => state === 'ready')
    })
  }
  return key
}

/** nginx before the first one, two and three of them. */
async function targetsOf(folder: string, gateways: readonly Started[], key: string): Promise<readonly Target[]> {
  const targets: Target[] = []
  for (const count of counts) {
    const behind = gateways.slice(0, count)
    const url = await startNginx(
      folder,
      behind.map((each) => new URL(each.url).port),
    )
    const [{ pid } = { pid: 0 }] = behind
    const chat = `${url}/v1/api/chat/completions`
    targets.push({ ...ordinary, name: `${count}`, url: chat, key, pid, sidePids: () => [], stop: async () => {} })
  }
  return targets
}

/** False: this user may make no control group. `made` takes what has to be removed. */
function giveShares(gateways: readonly Started[], made: CpuShare[]): boolean {
  for (const { pid: started } of gateways) {
    for (const [at, pid] of servingPids(started).entries()) {
      const share = CpuShare.make(String(pid), shareCores)
      if (share === null) return false
      made.push(share)
      share.hold(pid)
      // The supervisor passes log lines on.
      if (at === 0) share.hold(started)
    }
  }
  return true
}

async function measuredRow(rig: Rig, targets: readonly Target[], name: LoadName, options: Options): Promise<string[]> {
  const samples: Record<Count, Sample[]> = { 1: [], 2: [], 3: [] }
  for (let round = 0; round < options.rounds; round++) {
    for (const count of counts) {
      const target = targets[count - 1] as Target
      samples[count].push(await measure(rig, target, { about: '', columns: [], load: loads[name] }, options.secs))
      await Bun.sleep(settleMs)
    }
  }
  const ratio = (count: Count) =>
    median(samples[count].map((sample, round) => sample.rps / (samples[1][round]?.rps ?? Number.NaN)))
  const errors = counts.flatMap((count) => samples[count]).reduce((sum, sample) => sum + errorsOf(sample), 0)
  const rates = counts.map((count) => show('rps', median(samples[count].map(columns.rps.of))))
  return [name, ...rates, ratio(2).toFixed(2), ratio(3).toFixed(2), String(errors)]
}

const head = ['requests/s', 'one gateway', 'two', 'three', 'two ÷ one', 'three ÷ one', 'errors']

/** One, two and three gateways of two processes on one PostgreSQL behind nginx, each process with processor time of its own. */
export async function compareGateways(options: Options): Promise<string> {
  if (Bun.which('nginx') === null) throw new RigError('nginx is missing (Debian: apt-get install nginx-light).')
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
  const folder = temporaryFolder()
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true, connectionsMax })
  const shares: CpuShare[] = []
  try {
    const gateways = await startGateways(folder, embedded.url)
    const targets = await targetsOf(folder, gateways, await keyFor(gateways, rig.mock.url(1)))
    for (const target of targets) {
      await check(rig, target)
      await warmUp(rig, target, options.warmupSecs)
    }
    const share = giveShares(gateways, shares) ? ` with ${shareCores} of a core each` : ', which share all cores'
    const rows: string[][] = []
    for (const name of loadNames) rows.push(await measuredRow(rig, targets, name, options))
    const how = `${options.rounds} rounds of ${options.secs} s · gateways of ${processes} processes${share}, one PostgreSQL, nginx before them, node and load generator on the same CPUs`
    return ['## Gateways', circumstances(how), markdown(head, rows)].join('\n\n')
  } finally {
    await stopAll()
    await embedded.stop()
    for (const share of shares) share.remove()
  }
}
