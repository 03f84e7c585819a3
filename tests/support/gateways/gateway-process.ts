import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** A gateway in a process of its own: what it costs can be told from what the test costs, and it can be killed. */
export interface GatewayProcess {
  readonly url: string
  readonly pid: number
  /** Open file descriptors, sockets among them. */
  descriptors(): number
  residentBytes(): number
  /** SIGTERM, and waits for the end. */
  stop(): Promise<void>
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>
}

const root = resolve(import.meta.dir, '../../..')
const urlLine = /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/

/** The first match of `pattern` in what a program writes; rejects when it ends before. The rest is read and dropped. */
export async function firstMatch(output: ReadableStream<Uint8Array>, pattern: RegExp): Promise<RegExpExecArray> {
  const reader = output.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const { value, done } = await reader.read()
    text += decoder.decode(value, { stream: !done })
    const found = pattern.exec(text)
    if (found !== null) {
      void drain(reader)
      return found
    }
    if (done) throw new Error(`ended without ${pattern}: ${text}`)
  }
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}

/** For `startTestGateway({ launch: spawnGateway })`, or by itself with a whole environment. `stderr`: an open file. */
export async function spawnGateway(
  env: Readonly<Record<string, string>>,
  stderr: number | 'inherit' = 'inherit',
): Promise<GatewayProcess> {
  const child = Bun.spawn([process.execPath, join(root, 'src/main.ts')], {
    cwd: root,
    stdio: ['ignore', 'pipe', stderr],
    env: { PATH: process.env.PATH ?? '', BUN_CONFIG_MAX_HTTP_REQUESTS: '65535', ...env },
  })
  const url = (await firstMatch(child.stdout, urlLine))[1] ?? ''
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal)
    await child.exited
  }
  return {
    url,
    pid: child.pid,
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    residentBytes: () => residentBytes(child.pid),
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  }
}

export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes ?? Number.NaN) * 1024
}
