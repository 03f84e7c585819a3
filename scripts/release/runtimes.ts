import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './built-files.ts'

/** A platform that a release is made for. */
export interface Target {
  /** As people call it, and as its executable is called. */
  readonly name: string
  readonly bunTarget: string
  /** npm's package with its Bun. */
  readonly package: string
  readonly program: string
  /** As Debian and OCI call its processor; null: neither is made for it. */
  readonly linuxArch: 'amd64' | 'arm64' | null
}

export const targets: readonly Target[] = [
  {
    name: 'linux-x64',
    bunTarget: 'bun-linux-x64',
    package: '@oven/bun-linux-x64',
    program: 'bun',
    linuxArch: 'amd64',
  },
  {
    name: 'linux-arm64',
    bunTarget: 'bun-linux-arm64',
    package: '@oven/bun-linux-aarch64',
    program: 'bun',
    linuxArch: 'arm64',
  },
  {
    name: 'macos-arm64',
    bunTarget: 'bun-darwin-arm64',
    package: '@oven/bun-darwin-aarch64',
    program: 'bun',
    linuxArch: null,
  },
  { name: 'macos-x64', bunTarget: 'bun-darwin-x64', package: '@oven/bun-darwin-x64', program: 'bun', linuxArch: null },
  {
    name: 'windows-x64',
    bunTarget: 'bun-windows-x64',
    package: '@oven/bun-windows-x64',
    program: 'bun.exe',
    linuxArch: null,
  },
]

export const executableName = ({ name }: Target): string =>
  `penstock-${name}${name.startsWith('windows') ? '.exe' : ''}`

interface Locked {
  readonly version: string
  readonly integrity: string
}

function lockedPackage(name: string): Locked {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, Locked | undefined>>
  }
  const locked = packages[`node_modules/${name}`]
  if (locked === undefined) throw new Error(`package-lock.json has no ${name}`)
  return locked
}

function run(command: readonly string[], cwd: string): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], { cwd })
  if (exitCode !== 0) throw new Error(`${command.join(' ')} failed: ${stderr.toString().slice(0, 2_000)}`)
  return stdout.toString()
}

/**
 * Fetches a package of another platform from npm's registry, in the version of `package-lock.json`, and keeps it in `.run`. Returns its
 * folder. Throws where its bytes are not those of the lock file.
 */
export function fetchedPackage(name: string): string {
  const { version, integrity } = lockedPackage(name)
  const folder = join(
    root,
    '.run/runtimes',
    `${name.replace('@oven/', '').replace('@', '').replace('/', '-')}-${version}`,
  )
  const content = join(folder, 'package')
  if (existsSync(content)) return content
  const fresh = `${folder}.${process.pid}`
  mkdirSync(fresh, { recursive: true })
  try {
    const [packed] = JSON.parse(run(['npm', 'pack', '--json', `${name}@${version}`], fresh)) as [
      { readonly filename: string },
    ]
    const archive = join(fresh, packed.filename.replace('@', '').replace('/', '-'))
    const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
    if (found !== integrity) throw new Error(`${name}@${version} is not what package-lock.json names`)
    run(['tar', '-xzf', archive], fresh)
    rmSync(archive)
    rmSync(folder, { recursive: true, force: true })
    renameSync(fresh, folder)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return content
}

/** The Bun of a platform: its program's path. */
export const runtimeOf = (target: Target): string => join(fetchedPackage(target.package), 'bin', target.program)
