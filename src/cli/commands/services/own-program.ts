import { delimiter, dirname, isAbsolute, join, sep } from 'node:path'
import type { Platform } from '../../../host/platform/platform.ts'
import type { ServiceScope } from '../../../host/platform/service.ts'
import { builtCommand, checkoutRoot, isBuilt } from '../../../host/program-files.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** How this very program is started again, by something that has no shell. */
export interface OwnProgram {
  /** The first words of its command, the program by its absolute path. */
  readonly words: readonly string[]
  /** Its folder. */
  readonly folder: string
  /** The checkout or the installed package; null: it is one file. */
  readonly root: string | null
  /** True if it is the agent alone, which takes no verb `node`. */
  readonly isAgent: boolean
}

/** npm deletes what `npx` fetched when it needs the room. */
const passing = `${sep}_npx${sep}`

function checkStays(path: string, advice: string): void {
  if (path.includes(passing)) {
    throw new CliFailure(`${path} is in the cache of npm, which may delete it. ${advice}`)
  }
}

function bundled(): OwnProgram {
  const [runtime = '', agent = ''] = builtCommand()
  checkStays(runtime, `Copy it first, and repeat this with the copy: cp "${runtime}" "${join(dirname(agent), 'bun')}"`)
  return { words: [runtime, agent], folder: dirname(agent), root: null, isAgent: true }
}

const installFirst = 'Install the package first: npm install --global @penstock/penstock'

/** Throws `CliFailure` where the program that runs now may be gone tomorrow. */
export function ownProgram(): OwnProgram {
  const root = checkoutRoot()
  if (root === null && !isBuilt) return bundled()
  const words = root === null ? builtCommand() : launcher(root)
  const program = words.at(-1) ?? ''
  checkStays(program, installFirst)
  return { words, folder: root ?? dirname(program), root, isAgent: false }
}

/** Windows runs no shell script. */
const launcher = (root: string): readonly string[] =>
  process.platform === 'win32'
    ? [Bun.which('node') ?? 'node', join(root, 'scripts', 'bun.mjs'), 'src/cli/main.ts']
    : [join(root, 'penstock')]

/** npm puts its own folders in front for the time of a script. */
const isNpms = (folder: string) => /[/\\](?:node_modules[/\\]\.bin|node-gyp-bin)$/.test(folder)

/**
 * The PATH of a service. A user's has that of the shell, since programs such as model servers are found by it; one of the system has
 * only folders that administrators alone can write to. Throws `CliFailure` where the launcher would not find Node.
 */
export function pathOf(
  { systemServices, servicesHavePath }: Platform,
  scope: ServiceScope,
  { root, words }: OwnProgram,
  env: Session['env'],
): Readonly<Record<string, string>> {
  if (scope === 'user' || systemServices === null) {
    if (servicesHavePath) return {}
    const folders = (env.PATH ?? '').split(delimiter).filter((folder) => isAbsolute(folder) && !isNpms(folder))
    return { PATH: [...new Set(folders)].join(delimiter) }
  }
  const { searched, hidden } = systemServices
  const unseen = words.find((word) => hidden.some((folder) => word.startsWith(`${folder}/`)))
  if (unseen !== undefined) {
    throw new CliFailure(
      `A service of the whole computer cannot see ${unseen}: homes are closed to it. Put the program into /opt/penstock, or leave out --system.`,
    )
  }
  const path = searched.join(delimiter)
  if (root === null || Bun.which('node', { PATH: path }) !== null) return {}
  throw new CliFailure(
    `A service of the whole computer looks for Node in ${path}, and it is not there. Link it: ln -s "$(command -v node)" /usr/local/bin/node`,
  )
}
