// Starts a program of this repository under the Bun that package-lock.json pins; needs only Node >= 20 with npm.
// Installs first when the lock file is newer than what is installed. Usage: node scripts/bun.mjs <script> [argument…]
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync, utimesSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
/** npm writes it at the end of an install. */
const installed = join(modules, '.package-lock.json')
const lock = join(root, 'package-lock.json')

function fail(message, code = 1) {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

function installIsCurrent() {
  return existsSync(installed) && (!existsSync(lock) || statSync(installed).mtimeMs >= statSync(lock).mtimeMs)
}

/** `npm ci` empties node_modules, also under a server that runs: only for the first install. */
function install() {
  process.stderr.write('Installing the packages of package-lock.json (once) …\n')
  const args = [existsSync(installed) ? 'install' : 'ci', '--no-audit', '--no-fund', '--no-save', '--loglevel=error']
  const cli = process.env.npm_execpath ?? ''
  const [command, first] = /npm-cli\.c?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  // stdout belongs to the program that follows.
  const { status, error } = spawnSync(command, [...first, ...args], { cwd: root, stdio: ['ignore', 2, 2] })
  if (error) fail(`npm cannot be run (${error.code}). Install the packages by hand: npm ci`)
  if (status !== 0) fail('npm could not install the packages; its message is above.', status ?? 1)
  const now = new Date()
  // Where nothing changed, npm leaves the file as it was.
  utimesSync(installed, now, now)
}

/** Without its install script the `bun` package holds a stub of some hundred bytes; the program is in its platform package. */
function findBun() {
  const usual = join(modules, 'bun', 'bin', 'bun.exe')
  if (existsSync(usual) && statSync(usual).size > 1_000_000) return usual
  const folder = join(modules, '@oven')
  const names = existsSync(folder) ? readdirSync(folder).sort() : []
  const candidates = names.map((name) => join(folder, name, 'bin', 'bun')).filter((file) => existsSync(file))
  return candidates.find((file) => spawnSync(file, ['--version']).status === 0)
}

const [script, ...args] = process.argv.slice(2)
if (script === undefined) fail('Usage: node scripts/bun.mjs <script> [argument…]', 2)
if (!installIsCurrent()) install()
const bun = findBun()
if (bun === undefined) fail(`No Bun for ${process.platform}-${process.arch} in node_modules. Try: npm ci`)

// Bun reads both files from the working directory, which may be another project's.
const elsewhere = resolve(process.cwd()) !== root ? [`--config=${join(root, 'bunfig.toml')}`, '--no-env-file'] : []
const child = spawn(bun, [...elsewhere, resolve(root, script), ...args], {
  stdio: 'inherit',
  // Bun lets 256 fetches run at once and reads the limit before any of our code; 65535 is its maximum.
  env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: process.env.BUN_CONFIG_MAX_HTTP_REQUESTS || '65535' },
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => fail(`Bun cannot be started (${error.code}).`))
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code ?? 1)
  process.removeAllListeners(signal)
  // The signal ends this process too, as a shell expects; the exit is for the signals that are ignored.
  process.kill(process.pid, signal)
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 100)
})
