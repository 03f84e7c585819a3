import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Socket, spawn } from 'bun'
import type { Credentials } from '../../../src/host/data-folder.ts'
import { prepareFolder } from '../run/prepared-folder.ts'
import { firstMatch } from './gateway-process.ts'

const root = resolve(import.meta.dir, '../../..')

/** A gateway with a database of its own in a process that may open only so many descriptors. */
export interface LimitedGateway {
  readonly url: string
  readonly credentials: Credentials
  /** Descriptors that its process has open. */
  descriptors(): number
  /** Lines of its log so far. */
  logged(): readonly Record<string, unknown>[]
  stop(): Promise<void>
}

export async function startLimitedGateway(
  descriptorsMax: number,
  env: Readonly<Record<string, string>> = {},
): Promise<LimitedGateway> {
  const dataDir = await prepareFolder(realpathSync(mkdtempSync(join(tmpdir(), 'penstock-limited-'))))
  const child = spawn(['sh', '-c', `ulimit -n ${descriptorsMax}; exec "$0" "$1"`, process.execPath, 'src/main.ts'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '',
      SVC_DATA_DIR: dataDir,
      SVC_PORT: '0',
      SVC_DISCOVER: 'false',
      SVC_WARM_UP: 'false',
      SVC_DEMO: 'never',
      ...env,
    },
  })
  let log = ''
  const reading = (async () => {
    for await (const chunk of child.stderr) log += Buffer.from(chunk).toString()
  })()
  const url = (await firstMatch(child.stdout, /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/))[1] ?? ''
  return {
    url,
    credentials: JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials,
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    logged: () =>
      log
        .split('\n')
        .slice(0, -1)
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      await reading
      const home = realpathSync(join(dataDir, 'postgres'))
      rmSync(home, { recursive: true, force: true })
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Clients that connect and say nothing. */
export class SilentClients {
  private readonly sockets = new Set<Socket>()

  constructor(private readonly url: string) {}

  /** Connections that the gateway has not closed, whether or not it has accepted them. */
  get open(): number {
    return this.sockets.size
  }

  async add(count: number): Promise<void> {
    const { hostname, port } = new URL(this.url)
    const socket = {
      open: (one: Socket) => void this.sockets.add(one),
      close: (one: Socket) => void this.sockets.delete(one),
      data: () => {},
      error: () => {},
      connectError: () => {},
    }
    await Promise.allSettled(Array.from({ length: count }, () => Bun.connect({ hostname, port: Number(port), socket })))
  }

  leave(): void {
    for (const socket of this.sockets) socket.terminate()
    this.sockets.clear()
  }
}
