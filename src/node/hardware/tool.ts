import { spawn } from 'node:child_process'
import { endTree } from '../../host/platform/platforms.ts'

/** How long a tool may take, ms. One that hangs is killed with all that it has started. */
export const toolMs = 3_000
/** Far more than any of them prints, bytes. */
const toolBytesMax = 256 * 1024
/** Tools that were killed and are not gone, since only the kernel can hold them: none is started beside them. */
const stuck = new Set<string>()

export interface ToolRun {
  readonly command: readonly [program: string, ...args: string[]]
  /** Absent: that of the agent. */
  readonly path?: string | undefined
  readonly boundMs?: number
  readonly signal?: AbortSignal | undefined
}

/** What a tool of this computer prints; null: it is not there, fails, prints too much or takes too long. Never rejects. */
export function toolText({
  command,
  path = process.env.PATH,
  boundMs = toolMs,
  signal,
}: ToolRun): Promise<string | null> {
  const [program, ...args] = command
  const place = `${path ?? ''}\n${program}`
  if (stuck.has(place)) return Promise.resolve(null)
  return new Promise((resolve) => {
    let size = 0
    let gone = false
    const chunks: Buffer[] = []
    // Nothing of the agent's own environment: keys of model servers may stand in it. A group of its own, so that what the
    // tool has started ends with it.
    const child = spawn(program, args, {
      env: { PATH: path ?? '', LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    })
    const end = (text: string | null) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', giveUp)
      resolve(text)
    }
    const giveUp = () => {
      // What has ended can be run again, even where something that it started still holds its output.
      if (child.pid !== undefined && !gone) stuck.add(place)
      killGroup(child.pid)
      child.stdout?.destroy()
      end(null)
    }
    const timer = setTimeout(giveUp, boundMs)
    signal?.addEventListener('abort', giveUp)
    child.on('error', () => end(null))
    child.stdout?.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > toolBytesMax) giveUp()
      else chunks.push(chunk)
    })
    child.on('exit', () => {
      gone = true
      stuck.delete(place)
    })
    child.on('close', (code) => end(code === 0 ? Buffer.concat(chunks).toString('utf8') : null))
    if (signal?.aborted === true) giveUp()
  })
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  if (endTree !== null) return endTree(pid)
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}
