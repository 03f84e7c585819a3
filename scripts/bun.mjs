// Starts a program of this repository under the Bun that package-lock.json pins; needs only Node >= 20 with npm.
// Installs first when the lock file is newer than what is installed. Usage: node scripts/bun.mjs <script> [argument…]
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
/** npm writes it at the end of an install. */
const installed = join(modules, '.package-lock.json')
const lock = join(root, 'package-lock.json')
/** Holds the process id of whoever installs now. */
const turn = join(root, '.run', 'installing')
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']

function fail(message, code = 1) {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

function installIsCurrent() {
  return existsSync(installed) && (!existsSync(lock) || statSync(installed).mtimeMs >= statSync(lock).mtimeMs)
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** One install at a time: two of them in one folder break each other. Waits for the other; false when it did the work. */
async function takeTurn() {
  mkdirSync(dirname(turn), { recursive: true })
  for (;;) {
    try {
      writeFileSync(turn, String(process.pid), { flag: 'wx' })
      return true
    } catch (error) {
      if (error.code !== 'EEXIST') fail(`${turn} cannot be written (${error.code}).`)
    }
    const holder = existsSync(turn) ? Number(readFileSync(turn, 'utf8')) : 0
    if (holder > 0 && !isAlive(holder)) rmSync(turn, { force: true })
    await delay(200)
    if (!existsSync(turn) && installIsCurrent()) return false
  }
}

/** `npm ci` empties node_modules, also under a server that runs: only for the first install. */
function runNpm() {
  const args = [existsSync(installed) ? 'install' : 'ci', '--no-audit', '--no-fund', '--no-save', '--loglevel=error']
  const cli = process.env.npm_execpath ?? ''
  const [command, first] = /npm-cli\.c?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  // stdout belongs to the program that follows.
  return run(command, [...first, ...args], { cwd: root, stdio: ['ignore', 2, 2] })
}

async function install() {
  process.stderr.write('Installing the packages of package-lock.json (once) …\n')
  if (!(await takeTurn())) return
  process.on('exit', () => rmSync(turn, { force: true }))
  const { code, signal, error } = await runNpm()
  if (error) fail(`npm cannot be run (${error.code}). Install the packages by hand: npm ci`)
  if (signal) await endBy(signal)
  if (code !== 0) fail('npm could not install the packages; its message is above.', code)
  const now = new Date()
  // Where nothing changed, npm leaves the file as it was.
  utimesSync(installed, now, now)
  rmSync(turn, { force: true })
}

/** Runs a program to its end; signals to this process go to it. */
function run(command, args, options) {
  return new Promise((resolved) => {
    let child = null
    let early = null
    const forward = (signal) => {
      if (child === null) early = signal
      else child.kill(signal)
    }
    // Before the start: a quick program is up before this process runs on, and a signal would leave it an orphan (seen).
    for (const signal of signals) process.on(signal, forward)
    const done = (end) => {
      for (const signal of signals) process.off(signal, forward)
      resolved(end)
    }
    child = spawn(command, args, options)
    child.on('error', (error) => done({ code: 1, signal: null, error }))
    child.on('exit', (code, signal) => done({ code, signal, error: null }))
    if (early !== null) child.kill(early)
  })
}

/** Ends this process as the child ended, which is what a shell expects. */
function endBy(signal) {
  rmSync(turn, { force: true })
  process.kill(process.pid, signal)
  // For a signal that is ignored here.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 100)
  return new Promise(() => {})
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
if (!installIsCurrent()) await install()
const bun = findBun()
if (bun === undefined) fail(`No Bun for ${process.platform}-${process.arch} in node_modules. Try: npm ci`)

// Bun reads both files from the working directory, which may be another project's.
const elsewhere = resolve(process.cwd()) !== root ? [`--config=${join(root, 'bunfig.toml')}`, '--no-env-file'] : []
const { code, signal, error } = await run(bun, [...elsewhere, resolve(root, script), ...args], {
  stdio: 'inherit',
  // Bun lets 256 fetches run at once and reads the limit before any of our code; 65535 is its maximum.
  env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: process.env.BUN_CONFIG_MAX_HTTP_REQUESTS || '65535' },
})
if (error) fail(`Bun cannot be started (${error.code}).`)
if (signal) await endBy(signal)
process.exit(code ?? 1)
