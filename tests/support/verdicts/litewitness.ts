import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { emptyRoot } from '../../../src/protocol/log/merkle-log.ts'
import { freePort } from '../gateways/free-port.ts'
import { waitUntil } from '../run/wait-until.ts'

/** A later one needs a later Go. */
const version = 'v0.6.1'
const home = join(homedir(), '.cache', 'penstock-tests', `litewitness-${version}`)
const binary = join(home, 'litewitness')

/** The program of a stranger, built by Go at the first call, which takes a minute; or what is missing for that. */
export function litewitness(): { readonly binary: string } | { readonly missing: string } {
  for (const tool of ['go', 'ssh-agent', 'ssh-add', 'ssh-keygen']) {
    if (Bun.which(tool) === null) return { missing: `there is no ${tool}` }
  }
  if (existsSync(binary)) return { binary }
  mkdirSync(home, { recursive: true })
  const built = Bun.spawnSync(['go', 'install', `filippo.io/torchwood/cmd/litewitness@${version}`], {
    env: { ...process.env, GOBIN: home, GOFLAGS: '' },
  })
  return built.exitCode === 0 ? { binary } : { missing: `Go cannot build litewitness ${version}` }
}

export interface Litewitness {
  /** `name+hash+base64`, as it prints it. */
  readonly key: string
  readonly url: string
  /** From now on it knows this log, of which it has seen nothing. */
  add(logKey: string): void
  stop(): Promise<void>
}

const run = (command: readonly string[], env: Readonly<Record<string, string>> = {}) => {
  const ran = Bun.spawnSync([...command], { env: { ...process.env, ...env } })
  if (ran.exitCode !== 0) throw new Error(`${command[0]} failed: ${ran.stderr}`)
  return ran.stdout.toString()
}

/** One in a folder of its own, with a key that its own ssh-agent holds. */
export async function startLitewitness(program: string, folder: string, name: string): Promise<Litewitness> {
  mkdirSync(folder, { recursive: true })
  const [key, socket, database] = ['key', 'agent.sock', 'witness.db'].map((file) => join(folder, file)) as [
    string,
    string,
    string,
  ]
  run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key])
  const agent = Bun.spawn(['ssh-agent', '-D', '-a', socket], { stdout: 'ignore', stderr: 'ignore' })
  await waitUntil('the ssh-agent', async () => existsSync(socket))
  run(['ssh-add', '-q', key], { SSH_AUTH_SOCK: socket })
  const [, fingerprint = ''] = run(['ssh-keygen', '-l', '-f', `${key}.pub`]).split(' ')
  const listen = `127.0.0.1:${await freePort()}`
  const options = { name, db: database, 'ssh-agent': socket, key: fingerprint, listen }
  const args = Object.entries(options).flatMap(([option, value]) => [`-${option}`, value])
  const witness = Bun.spawn([program, ...args], { stdout: 'ignore', stderr: Bun.file(join(folder, 'log')) })
  const logged = async () => {
    const log = Bun.file(join(folder, 'log'))
    return (await log.exists()) ? log.text() : ''
  }
  await waitUntil('the witness', async () => (await logged()).includes('msg=listening'))
  const [, vkey = ''] = /vkey="?([^\s"]+)/.exec(await logged()) ?? []
  return {
    key: vkey,
    url: `http://${listen}`,
    add: (logKey) => {
      const [origin = ''] = logKey.split('+')
      const db = new Database(database)
      const root = Buffer.from(emptyRoot()).toString('base64')
      db.run('insert into log (origin, tree_size, tree_hash) values (?, 0, ?)', [origin, root])
      db.run('insert into key (origin, key) values (?, ?)', [origin, logKey])
      db.close()
    },
    stop: async () => {
      witness.kill('SIGINT')
      agent.kill()
      await Promise.all([witness.exited, agent.exited])
    },
  }
}
