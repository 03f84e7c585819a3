import { realpathSync } from 'node:fs'
import { loop } from './loop.ts'

/**
 * Set by `scripts/bun.mjs` for the program that it starts: its own process id, a space, and the file of the program. The
 * file is there because programs that this one starts inherit the variable.
 */
const launcherVariable = 'PENSTOCK_LAUNCHER'
const lookEveryMs = 500

let end = (): void => void process.kill(process.pid, 'SIGTERM')

/**
 * Runs `what` when the launcher ends, instead of sending a signal: a second signal would end a program that is
 * stopping.
 */
export function atLauncherEnd(what: () => void): void {
  end = what
}

/** Of a program that was built, Bun names a file in no folder of this computer. */
function mainFile(): string {
  try {
    return realpathSync(Bun.main)
  } catch {
    return Bun.main
  }
}

/** A process whose parent has ended has another parent at once, on Linux and on macOS; on Windows it keeps the number. */
function launches(pid: number): boolean {
  if (process.ppid !== pid) return false
  if (process.platform !== 'win32') return true
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/**
 * Ends this program when its launcher is gone: whatever kills the launcher, no program of it stays behind and holds its port
 * and its data folder.
 */
export function endWithLauncher(): void {
  const { env } = process
  const [pid, ...file] = (env[launcherVariable] ?? '').split(' ')
  delete env[launcherVariable]
  if (file.length === 0 || file.join(' ') !== mainFile()) return
  const look = () => {
    if (launches(Number(pid))) return
    void looking.stop()
    end()
  }
  const looking = loop({ everyMs: lookEveryMs, run: look })
  looking.start()
}
