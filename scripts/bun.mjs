// Starts a program of this repository under the Bun that package-lock.json pins; needs only Node >= 20 with npm.
// Installs first what the program needs and is not there. Usage: node scripts/bun.mjs <script> [argument…]
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install } from './install.mjs'
import { applyPatches } from './patches.mjs'
import { bunEnvironment, endBy, fail, run } from './run.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
const stubBytesMax = 1_000_000

/** Without its install script the `bun` package holds a stub of some hundred bytes; the program is in its platform package. */
function findBun() {
  const usual = join(modules, 'bun', 'bin', 'bun.exe')
  if (existsSync(usual) && statSync(usual).size > stubBytesMax) return usual
  const folder = join(modules, '@oven')
  const names = existsSync(folder) ? readdirSync(folder).sort() : []
  const program = process.platform === 'win32' ? 'bun.exe' : 'bun'
  const candidates = names.map((name) => join(folder, name, 'bin', program)).filter((file) => existsSync(file))
  return candidates.find((file) => spawnSync(file, ['--version']).status === 0)
}

function patch() {
  try {
    // At every start: an install by hand undoes it.
    applyPatches(root)
  } catch (error) {
    fail(`The packages cannot be patched. ${error.message}`)
  }
}

/**
 * True if npm runs this as a script of package.json: npm then is the parent. Any other parent, such as a shell, may end without this,
 * and the programs that npm's script starts inherit its environment.
 */
const isScriptOfNpm = (script) => (process.env.npm_lifecycle_script ?? '').includes(`scripts/bun.mjs ${script}`)

const parent = process.ppid
const [script, ...args] = process.argv.slice(2)
if (script === undefined) fail('Usage: node scripts/bun.mjs <script> [argument…]', 2)
await install(root, script)
patch()
const bun = findBun()
if (bun === undefined) fail(`No Bun for ${process.platform}-${process.arch} in node_modules. Try: npm ci`)

// Bun reads both files from the working directory, which may be another project's.
const elsewhere = resolve(process.cwd()) !== root ? [`--config=${join(root, 'bunfig.toml')}`, '--no-env-file'] : []
const program = resolve(root, script)
const { code, signal, error } = await run(bun, [...elsewhere, program, ...args], {
  stdio: 'inherit',
  // Bun lets 256 fetches run at once and reads the limit before any of our code; 65535 is its maximum.
  env: {
    ...bunEnvironment(),
    // By this the program ends when this process is killed (src/host/launcher.ts).
    PENSTOCK_LAUNCHER: `${process.pid} ${existsSync(program) ? realpathSync(program) : program}`,
  },
  parent: isScriptOfNpm(script) ? parent : null,
})
if (error) fail(`Bun cannot be started (${error.code}).`)
if (signal) await endBy(signal)
process.exit(code ?? 1)
