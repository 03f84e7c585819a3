import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { launch, type Program, RigError, stopAll, temporaryFolder } from './rig.ts'
import { markdown, median } from './table.ts'
import { startGateway } from './targets.ts'

const clients = 12
const restartsDefault = 20
/** Before a signal, ms. */
const steadyMs = 300
/** Between two looks at `/readyz`, ms. */
const lookMs = 10
/** For each core, beside all that is measured. */
const busyPerCore = 1
/** It ends with the bench, whatever ends that. */
const busyLoop = `const parent = process.ppid
while (process.ppid === parent) for (let at = 0; at < 10_000_000; at++);`

interface Way {
  readonly name: string
  readonly processes: number
  readonly signal: 'SIGTERM' | 'SIGHUP'
}
const ways: readonly Way[] = [
  { name: 'one process, SIGTERM', processes: 1, signal: 'SIGTERM' },
  { name: 'two processes, SIGTERM', processes: 2, signal: 'SIGTERM' },
  { name: 'two processes, replaced by SIGHUP', processes: 2, signal: 'SIGHUP' },
]

/** What became of connections while a gateway ended. */
export interface Drain {
  answered: number
  /** The connection was there, and ended without a whole answer. */
  reset: number
  refused: number
  /** Answers of `/readyz`. */
  ready: number
  unready: number
}

type End = 'answered' | 'reset' | 'refused'
interface Said {
  readonly end: End
  readonly status: number
}

/** One request on a connection of its own. */
function askOnce(port: number, request: string): Promise<Said> {
  return new Promise((done) => {
    let connected = false
    let text = ''
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      connected = true
      socket.write(request)
    })
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
      const whole = status !== 0 && isWhole(text)
      done({ end: whole ? 'answered' : connected ? 'reset' : 'refused', status })
    })
  })
}

function isWhole(text: string): boolean {
  const head = text.indexOf('\r\n\r\n')
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head + 2))?.[1]
  return length === undefined ? text.endsWith('0\r\n\r\n') : text.length - head - 4 === Number(length)
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`
function chat(key: string): string {
  const body = JSON.stringify({ model: 'demo/wordplay', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] })
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** Asks until it is stopped: the clients on connection after connection, half of them chat, and one that looks at `/readyz`. */
function load(port: number, key: string): { readonly drain: Drain; stop(): Promise<void> } {
  const drain: Drain = { answered: 0, reset: 0, refused: 0, ready: 0, unready: 0 }
  let running = true
  const client = async (request: string) => {
    while (running) {
      const { end } = await askOnce(port, request)
      drain[end]++
      if (end === 'refused') await Bun.sleep(lookMs)
    }
  }
  const look = async () => {
    while (running) {
      const { end, status } = await askOnce(port, get('/readyz'))
      if (end === 'reset') drain.reset++
      if (status === 200) drain.ready++
      if (status === 503) drain.unready++
      await Bun.sleep(lookMs)
    }
  }
  const requests = Array.from({ length: clients }, (_, at) => (at % 2 === 0 ? get('/healthz') : chat(key)))
  const all = Promise.all([look(), ...requests.map(client)])
  return {
    drain,
    stop: async () => {
      running = false
      await all
    },
  }
}

/** Loads both cores beside gateway and clients. */
function startBusyLoops(): readonly Program[] {
  return Array.from({ length: availableParallelism() * busyPerCore }, () => launch([process.execPath, '-e', busyLoop]))
}

const ended = ({ child }: Program) =>
  new Promise<void>((done) => {
    if (child.exitCode !== null || child.signalCode !== null) done()
    else child.once('exit', () => done())
  })

interface Place {
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
}

async function started({ folder, env }: Place) {
  const data = join(folder, 'data')
  const { program, url } = await startGateway(data, join(folder, 'gateway.log'), null, env)
  const { gateway_key: key } = JSON.parse(readFileSync(join(data, 'credentials.json'), 'utf8')) as {
    readonly gateway_key: string
  }
  return { program, port: Number(new URL(url).port), key }
}

async function endedBySigterm(place: Place): Promise<Drain> {
  const { program, port, key } = await started(place)
  const loading = load(port, key)
  await Bun.sleep(steadyMs)
  program.child.kill('SIGTERM')
  await ended(program)
  await loading.stop()
  return loading.drain
}

/** Of one gateway that stays: all of its processes, one after the other. */
async function replaced(place: Place, times: number): Promise<readonly Drain[]> {
  const { program, port, key } = await started(place)
  const drains: Drain[] = []
  const log = join(place.folder, 'gateway.log')
  const rounds = () => readFileSync(log, 'utf8').split('processes_replaced').length - 1
  for (let time = 1; time <= times; time++) {
    const loading = load(port, key)
    await Bun.sleep(steadyMs)
    program.child.kill('SIGHUP')
    while (rounds() < time) {
      if (program.child.exitCode !== null) throw new RigError('The gateway ended instead of replacing its processes.')
      await Bun.sleep(lookMs)
    }
    await loading.stop()
    drains.push(loading.drain)
  }
  await program.stop()
  return drains
}

async function measured({ name, processes, signal }: Way, times: number): Promise<readonly Drain[]> {
  const place: Place = {
    folder: temporaryFolder(),
    env: { SVC_PROCESSES: String(processes), SVC_DEMO: 'always', SVC_SHUTDOWN_GRACE_MS: '10000' },
  }
  if (signal === 'SIGHUP') return replaced(place, times)
  const drains: Drain[] = []
  for (let time = 0; time < times; time++) {
    drains.push(await endedBySigterm(place))
    process.stderr.write(`${name}, ${time + 1} of ${times}: ${JSON.stringify(drains.at(-1))}\n`)
  }
  return drains
}

function row({ name, signal }: Way, drains: readonly Drain[]): readonly string[] {
  const sum = (of: (drain: Drain) => number) => String(drains.reduce((total, drain) => total + of(drain), 0))
  const unready = drains.map((drain) => drain.unready)
  const least = signal === 'SIGHUP' ? Math.max(...unready) : Math.min(...unready)
  return [
    name,
    String(drains.length),
    sum(({ answered }) => answered),
    sum(({ reset }) => reset),
    sum(({ refused }) => refused),
    String(least),
    String(median(unready)),
  ]
}

/** Whether a connection is reset while a gateway ends or is replaced, and whether its health check says so before. */
export async function benchDrains(_options: Options, restarts = restartsDefault): Promise<string> {
  const busy = startBusyLoops()
  const rows: (readonly string[])[] = []
  try {
    for (const way of ways) rows.push(row(way, await measured(way, restarts)))
  } finally {
    await stopAll()
  }
  const head = ['', 'times', 'answered', 'reset', 'refused', '503 of /readyz, least', 'median']
  return `## Drains

${markdown(head, rows)}

${clients} clients, each request on a connection of its own, half of them chats; \`/readyz\` every ${lookMs} ms; ${busy.length} busy loops beside them.
The goals: no reset, at least one 503 at each SIGTERM, none at a SIGHUP (there the column has the most).

${circumstances(`SVC_DRAIN_MS 300, embedded database`)}`
}
