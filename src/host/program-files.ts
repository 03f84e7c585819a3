import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { embeddedFiles } from './embedded-files.ts'

/**
 * Files that the program reads while it runs: in the checkout, or inside the one file that `npm run build` makes. Ask
 * here for each such file; otherwise the built program lacks it.
 */
const root = join(import.meta.dir, '../..')

/** Whether this was built: one executable file, or the program of the npm package. */
export const isBuilt = Object.keys(embeddedFiles).length > 0

/** An executable has its code in a file system of its own, as Bun names it. */
const isExecutable = /^(?:\/\$bunfs|[A-Z]:[/\\]~BUN)[/\\]/i.test(import.meta.dir)

/** The Bun that runs this program and could run another one; null: an executable has it inside. */
export const ownRuntime = (): string | null => (isExecutable ? null : process.execPath)

/** The first words of the command that starts this built program, or the agent's bundle, again. */
export const builtCommand = (): readonly string[] =>
  isExecutable ? [process.execPath] : [process.execPath, realpathSync(Bun.main)]

/** `path` from the checkout's root. */
export function programFile(path: string): string {
  return embeddedFiles[path] ?? join(root, path)
}

/** null in the built program and in the agent's bundle, whose parent folders belong to something else. */
export const checkoutRoot = (file = import.meta.file): string | null => (file === 'program-files.ts' ? root : null)

/** null if this is not a built program. */
export function embeddedFile(path: string): string | null {
  return embeddedFiles[path] ?? null
}

/** The files in a folder of the built program, by their names in it; empty: this is no built program. */
export function embeddedFolder(path: string): ReadonlyMap<string, string> {
  const inside = Object.entries(embeddedFiles).filter(([file]) => file.startsWith(`${path}/`))
  return new Map(inside.map(([file, at]) => [file.slice(path.length + 1), at]))
}

/** A file of an installed package. */
export function packageFile(name: string, path: string): string {
  const embedded = embeddedFiles[packagePath(name, path)]
  return embedded ?? join(dirname(fileURLToPath(import.meta.resolve(`${name}/package.json`))), path)
}

export const packagePath = (name: string, path: string) => `node_modules/${name}/${path}`
