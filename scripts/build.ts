import { statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { builtFiles, root } from './release/built-files.ts'
import { buildExecutable } from './release/executable.ts'

/**
 * Makes the whole program one executable file, `dist/penstock`, that needs neither Node nor Bun nor a node_modules:
 * `dist/penstock serve` with `DATABASE_URL`, and every other command. An executable and not one `.mjs`: the Bun that runs
 * it is then the one it was tested with. Usage: `npm run build [-- --target bun-linux-arm64] [--out FILE]`.
 */
function option(name: string): string | null {
  const at = process.argv.indexOf(name)
  return at === -1 ? null : (process.argv[at + 1] ?? null)
}

const outfile = resolve(option('--out') ?? join(root, 'dist/penstock'))
await buildExecutable({ files: await builtFiles(), outfile, target: option('--target'), runtime: null })
process.stdout.write(`${relative(process.cwd(), outfile)}: ${Math.round(statSync(outfile).size / 1e6)} MB\n`)
