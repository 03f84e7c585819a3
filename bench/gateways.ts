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
import { adminWith, freePort, furnish, ordinary, startGateway, type Target } from './targets.ts'

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

/** One, two and three gateways of two processes on one PostgreSQL behind nginx, each process with processor time of its own. */
export async function compareGateways(options: Options): Promise<string> {
  if (Bun.which('nginx') === null) throw new RigError('nginx is missing (Debian: apt-get install nginx-light).')
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
  const folder = temporaryFolder()
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true, connectionsMax })
  const shares: CpuShare[] = []
  try {
    const token = secret()
    const env = {
      DATABASE_URL: embedded.url,
      SVC_PROCESSES: String(processes),
      SVC_ADMIN_TOKENS: token,
      ...Object.fromEntries(
        ['TOKEN_PEPPER', 'SECRETS_KEY', 'AUDIT_KEY', 'ROUTER_KEY', 'WEBHOOK_KEY', 'LOG_KEY'].map((name) => [
          `SVC_${name}`,
          secret(),
        ]),
      ),
    }
    const gateways: { readonly url: string; readonly pid: number }[] = []
    for (const count of counts) {
      const { program, url } = await startGateway(join(folder, `${count}`), join(folder, `${count}.log`), null, env)
      gateways.push({ url, pid: program.pid })
    }
    const admins = gateways.map(({ url }) => adminWith(url, token))
    const [first] = admins
    if (first === undefined) throw new RigError('no gateway')
    const key = await furnish(first, [rig.mock.url(1)], false)
    for (const admin of admins) {
      await until('the node to be ready', async () => {
        const { nodes } = await admin<{ readonly nodes: readonly { readonly state: string }[] }>('GET', '/nodes')
        return nodes.length > 0 && nodes.every(({ state }) => state === 'ready')
      })
    }
    const targets: Target[] = []
    for (const count of counts) {
      const before = gateways.slice(0, count)
      const url = await startNginx(
        folder,
        before.map((each) => new URL(each.url).port),
      )
      const [{ pid } = { pid: 0 }] = before
      const more = { ...ordinary, pid, sidePids: () => [], stop: async () => {} }
      targets.push({ name: `${count}`, url: `${url}/v1/api/chat/completions`, key, ...more })
    }
    for (const target of targets) {
      await check(rig, target)
      await warmUp(rig, target, options.warmupSecs)
    }
    for (const pid of gateways.flatMap((each) => servingPids(each.pid))) {
      const share = CpuShare.make(String(pid), shareCores)
      if (share === null)
        throw new RigError('This user may make no control group, so no process can have time of its own.')
      shares.push(share)
      share.hold(pid)
    }
    const rows: string[][] = []
    for (const [name, load] of Object.entries(loads)) {
      const samples: Record<Count, Sample[]> = { 1: [], 2: [], 3: [] }
      for (let round = 0; round < options.rounds; round++) {
        for (const count of counts) {
          const target = targets[count - 1] as Target
          samples[count].push(await measure(rig, target, { about: '', columns: [], load }, options.secs))
          await Bun.sleep(settleMs)
        }
      }
      const ratio = (count: Count) =>
        median(samples[count].map((sample, round) => sample.rps / (samples[1][round]?.rps ?? Number.NaN)))
      rows.push([
        name,
        ...counts.map((count) => show('rps', median(samples[count].map(columns.rps.of)))),
        ratio(2).toFixed(2),
        ratio(3).toFixed(2),
        String(
          Object.values(samples)
            .flat()
            .reduce((sum, sample) => sum + errorsOf(sample), 0),
        ),
      ])
    }
    const head = ['requests/s', 'one gateway', 'two', 'three', 'two ÷ one', 'three ÷ one', 'errors']
    const how = `${options.rounds} rounds of ${options.secs} s · gateways of ${processes} processes with ${shareCores} of a core each, one PostgreSQL, nginx before them, node and load generator on the same CPUs`
    return ['## Gateways', circumstances(how), markdown(head, rows)].join('\n\n')
  } finally {
    await stopAll()
    await embedded.stop()
    for (const share of shares) share.remove()
  }
}
