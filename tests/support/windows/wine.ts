import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Wine, which runs programs of Windows as far as it carries them. What passes here says that the program has no need of another system, not
 * that Windows treats it as Wine does.
 */
const wine = ['/usr/lib/wine/wine64', '/usr/bin/wine64'].find((path) => existsSync(path)) ?? null
const compiler =
  ['x86_64-w64-mingw32-gcc-win32', 'x86_64-w64-mingw32-gcc'].find((name) => Bun.which(name) !== null) ?? null

export const runsWine = wine !== null && compiler !== null && process.platform === 'linux' && process.arch === 'x64'
if (!runsWine) console.log('skipped: Wine and MinGW are not here (apt-get install wine64 gcc-mingw-w64-x86-64-win32)')

/** What Wine 8 lacks and Windows has: where Bun asks for random bytes. */
const randomBytes = `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
`

interface Ended {
  readonly out: string
  readonly err: string
  readonly code: number
}

/** A Windows of its own, in a folder of its own. */
export class Windows {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-windows-')))
  private readonly children: Bun.Subprocess[] = []
  private readonly seen: string[] = []

  /** A library of C, which a program in the same folder finds. */
  library(name: string, source: string, ...options: readonly string[]): void {
    const file = join(this.folder, `${name.replaceAll('/', '-')}.c`)
    writeFileSync(file, source)
    const { exitCode, stderr } = Bun.spawnSync([compiler ?? '', '-shared', '-o', name, file, ...options], {
      cwd: this.folder,
    })
    if (exitCode !== 0) throw new Error(stderr.toString())
  }

  /** What a program that Bun runs needs beside it. `folder`: below this one. */
  prepareBun(folder = '.'): void {
    this.library(join(folder, 'bcryptprimitives.dll'), randomBytes, '-ladvapi32')
  }

  /** `command`: a program of Windows by its path on this computer, and its words. */
  start(command: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const child = Bun.spawn([wine ?? '', ...command], {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '', HOME: this.folder, WINEDEBUG: '-all', ...this.prefix, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.children.push(child)
    return child
  }

  async output(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const child = this.start(command, env)
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    return { out, err, code }
  }

  /** Where Wine keeps what programs of Windows call `C:\`. */
  get drive(): string {
    return join(this.folder, 'wine/drive_c')
  }

  private get prefix() {
    return { WINEPREFIX: join(this.folder, 'wine') }
  }

  /** Said at the end: what ran. */
  ran(what: string): void {
    this.seen.push(what)
  }

  stop(): void {
    for (const child of this.children) child.kill('SIGKILL')
    const server = Bun.which('wineserver') ?? '/usr/lib/wine/wineserver64'
    // Its own processes outlive the programs that it ran.
    Bun.spawnSync([server, '-k'], { env: this.prefix })
    console.log(`ran under Wine: ${this.seen.join('; ')}`)
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 })
  }
}
