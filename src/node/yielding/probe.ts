import { spawn } from 'node:child_process'

/** What a probe may look at. */
export interface ProbeWorld {
  /** Where the kernel tells of itself; another folder in tests. */
  readonly sysRoot: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** A request of this agent runs. */
  readonly isBusy: () => boolean
  /** Unix ms. */
  readonly now: () => number
  /** IANA, of this computer. */
  readonly timeZone: string
}

/** Resolves with whether the owner needs the computer now. Rejects where it cannot be told. */
export type Look = (signal: AbortSignal) => Promise<boolean>

/** One reason to leave the computer to its owner: a file in this folder, and a line in the registry. */
export interface YieldProbe {
  /** As the owner names it, and as the gateway shows it. */
  readonly name: string
  readonly about: string
  /** Makes the look from what stands behind the name; null: nothing does. Returns a sentence for its owner where that is wrong. */
  make(value: string | null, world: ProbeWorld): Look | string
}

/** Longer output is no answer, UTF-16 units. */
const outputUnitsMax = 65_536

/** Runs a program of this computer and resolves with what it prints. Rejects if it is missing, fails, or is stopped by the signal. */
export function output(
  command: readonly string[],
  world: Pick<ProbeWorld, 'env'>,
  signal: AbortSignal,
): Promise<string> {
  const [program = '', ...args] = command
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: world.env as NodeJS.ProcessEnv,
      stdio: ['ignore', 'pipe', 'ignore'],
      signal,
      killSignal: 'SIGKILL',
    })
    let text = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (more: string) => {
      text += more
      if (text.length > outputUnitsMax) child.kill('SIGKILL')
    })
    child.on('error', reject)
    child.on('close', (code) => (code === 0 ? resolve(text) : reject(new Error(`${program} ended with ${code}`))))
  })
}
