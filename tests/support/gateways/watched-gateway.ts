import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Credentials } from '../../../src/host/data-folder.ts'
import { prepareFolder } from '../run/prepared-folder.ts'
import { settled } from '../run/wait-until.ts'

/** A first start with the embedded database in a process of its own, whose every trace can be looked at. */
export interface WatchedGateway {
  readonly url: string
  readonly credentials: Credentials
  /** Of the embedded database. */
  readonly databaseUrl: string
  /** Values of the data folder's secret files. */
  readonly secrets: Readonly<Record<string, string>>
  logged(): string
  printed(): string
  /** Command lines of the gateway and its children. */
  commandLines(): readonly string[]
  /** SIGTERM, and waits for the end: logs and files are complete. */
  stop(): Promise<void>
  /** Files of the data folder, and of the database wherever it lives, without those that hold secrets by design. */
  files(): Generator<{ readonly name: string; readonly bytes: Buffer; readonly ofDatabase: boolean }>
  remove(): void
}

const root = resolve(import.meta.dir, '../../..')
const secretFiles = ['credentials.json', 'secrets.json', 'postgres-password']
const readyLine = /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/

function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else if (entry.isFile()) yield path
  }
}

async function collect(output: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  for await (const chunk of output) take(decoder.decode(chunk, { stream: true }))
}

export async function startWatchedGateway(env: Readonly<Record<string, string>>): Promise<WatchedGateway> {
  const folder = await prepareFolder(realpathSync(mkdtempSync(join(tmpdir(), 'penstock-leaks-'))))
  const child = Bun.spawn([process.execPath, join(root, 'src/main.ts')], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', SVC_DATA_DIR: folder, ...env },
  })
  let logged = ''
  let printed = ''
  let ready: (url: string) => void = () => {}
  const listening = new Promise<string>((resolve) => {
    ready = resolve
  })
  const reading = [
    collect(child.stderr, (text) => {
      logged += text
    }),
    collect(child.stdout, (text) => {
      printed += text
      const url = readyLine.exec(printed)?.[1]
      if (url !== undefined) ready(url)
    }),
  ]
  const url = await settled('the start of a gateway', Promise.race([listening, child.exited.then(() => null)]))
  if (url === null) throw new Error(`the gateway does not start: ${logged.slice(-500)}`)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8').trim()
  const home = realpathSync(join(folder, 'postgres'))
  return {
    url,
    credentials: JSON.parse(read('credentials.json')) as Credentials,
    databaseUrl: embeddedUrl(folder),
    secrets: {
      ...(JSON.parse(read('secrets.json')) as Record<string, string>),
      password: read('postgres-password'),
    },
    logged: () => logged,
    printed: () => printed,
    commandLines: () => commandLinesOf(child.pid, home),
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      await Promise.all(reading)
    },
    *files() {
      const places = home.startsWith(folder) ? [folder] : [folder, home]
      for (const path of places.flatMap((place) => [...filesBelow(place)])) {
        if (secretFiles.some((name) => path === join(folder, name)) || !existsSync(path)) continue
        yield { name: path, bytes: readFileSync(path), ofDatabase: path.startsWith(home) }
      }
    },
    remove: () => {
      rmSync(home, { recursive: true, force: true })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Of the embedded database of a data folder. */
export function embeddedUrl(folder: string): string {
  const password = readFileSync(join(folder, 'postgres-password'), 'utf8').trim()
  const socketFolder = socketOf(realpathSync(join(folder, 'postgres')))
  return `postgres://penstock:${password}@localhost:5432/penstock?host=${encodeURIComponent(socketFolder)}`
}

/** The folder of the server's socket stands in the fifth line of its process file. */
function socketOf(home: string): string {
  return readFileSync(join(home, 'data', 'postmaster.pid'), 'utf8').split('\n')[4] ?? ''
}

function commandLinesOf(pid: number, home: string): readonly string[] {
  if (!existsSync('/proc/self/cmdline')) return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && statSync(`/proc/${name}`, { throwIfNoEntry: false }) !== undefined)
    .map((name) => {
      try {
        return [name, readFileSync(`/proc/${name}/cmdline`, 'utf8')] as const
      } catch {
        return [name, ''] as const
      }
    })
    .filter(([name, line]) => name === String(pid) || line.includes(home))
    .map(([, line]) => line)
}
