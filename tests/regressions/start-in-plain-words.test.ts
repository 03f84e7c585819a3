import { afterAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { unknownSettings } from '../../src/settings/unknown.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'

/*
 * A start that failed over its data folder said `EEXIST` and no more; a list of proxies that are no addresses was taken
 * silently, and so was a variable that is no setting. A database that was not there yet was an `Error`, and one that refused
 * a `PostgresError`.
 */

const scratch = openFolder('penstock-words-')
afterAll(() => rmSync(scratch, { recursive: true }))

const secrets = {
  SVC_TOKEN_PEPPER: 'pepper',
  SVC_SECRETS_KEY: 'secrets',
  SVC_AUDIT_KEY: 'audit',
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  SVC_ADMIN_TOKENS: 'an-admin-token-of-this-test',
}
const root = resolve(import.meta.dir, '..', '..')
const programs = { start: ['src/main.ts'], serve: ['src/cli/main.ts', 'serve'] } as const

function begin(env: Readonly<Record<string, string>>, program: keyof typeof programs = 'start') {
  return Bun.spawn([process.execPath, ...programs[program]], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', SVC_PORT: '0', SVC_DISCOVER: 'false', SVC_WARM_UP: 'false', ...env },
  })
}

async function refused(env: Readonly<Record<string, string>>, program?: keyof typeof programs): Promise<string> {
  const child = begin(env, program)
  const text = await new Response(child.stderr).text()
  expect(await child.exited).toBe(1)
  expect(text).not.toContain('could not start')
  expect(text).not.toMatch(/\n\s+at /)
  return text
}

test('a data folder that cannot be one: which, why, and what to do', async () => {
  const file = join(scratch, 'file')
  writeFileSync(file, '')
  const cases = [
    [file, 'it is a file'],
    [join(file, 'below'), 'a part of its path is a file'],
    ['/proc/penstock', 'no folder can be created there'],
    [join(scratch, 'x'.repeat(300)), 'its path is too long'],
    ['/sys/penstock', /this user may not write there|the file system is read-only/],
  ] as const
  for (const [path, why] of cases) {
    const text = await refused({ SVC_DATA_DIR: path })
    expect(text).toContain(path)
    expect(text).toMatch(why)
    expect(text).toContain('SVC_DATA_DIR')
  }
})

test('a PostgreSQL of DATABASE_URL that cannot be used: why, and what to do, however the gateway is started', async () => {
  const { url, drop } = await testDatabase()
  const [absent, unknown] = [new URL(url), new URL(url)]
  // A program that asks for a port never gets the first one.
  const unheard = 'postgres://user:secret@127.0.0.1:1/name'
  absent.pathname = '/absent_database'
  unknown.username = 'unknown_user'
  const cases = [
    [unheard, 'Nothing answers at DATABASE_URL', 'ECONNREFUSED'],
    [absent.href, 'no database of the name in DATABASE_URL', '3D000'],
    [unknown.href, 'refuses the user or the password', '28P01'],
  ] as const
  for (const [database, why, code] of cases) {
    for (const program of ['start', 'serve'] as const) {
      const text = await refused({ DATABASE_URL: database, ...secrets }, program)
      expect(text).toContain(why)
      expect(text).toContain(`(${code})`)
      expect(text).not.toContain('secret@')
    }
  }
  await drop()
})

test('trusted proxies that are no addresses are a fault of the configuration', async () => {
  for (const value of ['everybody', '10.0.0.0/99', '10.0.0.1,nobody']) {
    const text = await refused({ SVC_DATA_DIR: join(scratch, 'never'), SVC_TRUSTED_PROXIES: value })
    expect(text).toContain('SVC_TRUSTED_PROXIES must be a list of addresses or networks')
    expect(text).not.toContain(value.split(',').at(-1) ?? value)
  }
  expect(existsSync(join(scratch, 'never'))).toBe(false)
})

test('a variable that is no setting is named, with the nearest that is, and its value is not', async () => {
  const file = join(scratch, 'folder-that-is-a-file')
  writeFileSync(file, '')
  const text = await refused({
    SVC_DATA_DIR: file,
    SVC_PROT: 'secret-value',
    SVC_XYZZY: '1',
    SVC_HOSTT: '0.0.0.0',
    SVC_BASE_URL: 'http://x',
  })
  const lines = text.split('\n').filter((line) => line.includes('unknown_setting'))
  expect(lines.map((line) => JSON.parse(line) as { name: string; nearest: string | null })).toEqual([
    expect.objectContaining({ level: 'warn', name: 'SVC_HOSTT', nearest: 'SVC_HOST' }),
    expect.objectContaining({ level: 'warn', name: 'SVC_PROT', nearest: 'SVC_PORT' }),
    expect.objectContaining({ name: 'SVC_XYZZY', nearest: null }),
  ])
  expect(text).toContain('\nSVC_HOSTT is no setting, so it does nothing. Did you mean SVC_HOST?\n')
  expect(text).not.toContain('secret-value')
})

/** What a person reads in the terminal, without the lines of the log. */
const inWords = (text: string) =>
  text
    .split('\n')
    .filter((line) => !line.startsWith('{'))
    .join('\n')
const noSetting = 'SVC_HOSTT is no setting, so it does nothing. Did you mean SVC_HOST?'

test('§27: a start that succeeds says it where its addresses stand, however it is started', async () => {
  for (const [program, folder] of [
    ['start', 'noted'],
    ['serve', 'noted-too'],
  ] as const) {
    const dataDir = await prepareFolder(join(scratch, folder))
    const child = begin({ SVC_DATA_DIR: dataDir, SVC_HOSTT: 'secret-value', SVC_LOG_LEVEL: 'error' }, program)
    const text = (await firstMatch(child.stdout, /is ready[\s\S]*\n\n/))[0]
    child.kill('SIGTERM')
    await child.exited
    expect(text).toContain(`\n  Note        ${noSetting}\n`)
    expect(text).not.toContain('secret-value')
    expect(await new Response(child.stderr).text()).not.toContain(noSetting)
    rmSync(realpathSync(join(dataDir, 'postgres')), { recursive: true, force: true })
  }
})

test('§27: commands and the agent say it, too, and know the variables of commands', async () => {
  const run = async (args: readonly string[], env: Readonly<Record<string, string>>) => {
    const child = Bun.spawn([process.execPath, 'src/cli/main.ts', ...args], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH ?? '', HOME: scratch, SVC_DATA_DIR: join(scratch, 'none'), ...env },
    })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    await child.exited
    return { out, err: inWords(err) }
  }
  const listed = await run(['nodes', 'list', '--json'], { SVC_HOSTT: 'x', SVC_ADMIN_TOKN: 'secret-value' })
  expect(listed.err).toContain('SVC_ADMIN_TOKN is no setting, so it does nothing. Did you mean SVC_ADMIN_TOKEN?\n')
  expect(listed.err).toContain(`${noSetting}\n`)
  expect(listed.out + listed.err).not.toContain('secret-value')
  const agent = await run(['node', '--listen', 'nonsense'], { SVC_HOSTT: 'x' })
  expect(agent.err).toStartWith(`${noSetting}\n`)
  const doctor = await run(['doctor'], { SVC_HOSTT: 'x', SVC_PORT: '0', SVC_BASE_URL: 'http://127.0.0.1:9' })
  // Once in the list, and once as what to do first.
  expect(doctor.out.split(noSetting)).toHaveLength(3)
  expect([doctor.out.trimEnd().split('\n').at(-1), doctor.err]).toEqual([
    expect.stringMatching(/^Do this first: SVC_HOSTT is no setting/),
    '',
  ])
  const known = { SVC_CUSTOMER_ID: 'c', SVC_CUSTOMER_TOKEN: 't', SVC_ADMIN_TOKEN: 'a', SVC_GATEWAY_KEY: 'k' }
  expect((await run(['nodes', 'list'], { ...known, SVC_PORT: '7070' })).err).not.toContain('is no setting')
})

test('every variable that a command reads is known to it', () => {
  const source = readFileSync(join(root, 'src/cli/frame/credentials.ts'), 'utf8')
  const names = [...source.matchAll(/env\.(SVC_\w+)/g)].map(([, name]) => name ?? '')
  expect(names.length).toBeGreaterThan(5)
  expect(unknownSettings(Object.fromEntries(names.map((name) => [name, ''])))).toEqual([])
})

test('only so many names, and none that is no name', () => {
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`SVC_NOTHING_${at}`, '']))
  expect(unknownSettings(many)).toHaveLength(20)
  expect(unknownSettings({ 'SVC_A\nB': '', [`SVC_${'A'.repeat(100)}`]: '', PATH: '', SVC_PORT: '1' })).toEqual([])
  expect(unknownSettings({ svc_chat_body_bytes: '' })).toEqual([
    { name: 'svc_chat_body_bytes', nearest: 'SVC_CHAT_BODY_BYTES_MAX' },
  ])
})

test('a start without the credentials that were made says that they are gone, and what helps', async () => {
  const dataDir = await prepareFolder(join(scratch, 'folder'))
  const welcome = async () => {
    const child = begin({ SVC_DATA_DIR: dataDir })
    const text = (await firstMatch(child.stdout, /Credentials [\s\S]*\n\n/))[0]
    child.kill('SIGTERM')
    await child.exited
    return text
  }
  expect(await welcome()).not.toContain('is missing')
  rmSync(join(dataDir, 'credentials.json'))
  const later = await welcome()
  expect(later).toContain(`${dataDir}/credentials.json is missing`)
  expect(later).toContain('./penstock reset-admin')
  rmSync(realpathSync(join(dataDir, 'postgres')), { recursive: true, force: true })
})

test('§25: a first start with tokens of its own names no file, because it writes none', async () => {
  const dataDir = join(scratch, 'given')
  const child = begin({ SVC_DATA_DIR: dataDir, SVC_ADMIN_TOKENS: secrets.SVC_ADMIN_TOKENS })
  const text = (await firstMatch(child.stdout, /Credentials [\s\S]*\n\n/))[0]
  child.kill('SIGTERM')
  await child.exited
  expect(existsSync(join(dataDir, 'credentials.json'))).toBe(false)
  expect(text).not.toContain('credentials.json')
  expect(text).toContain('SVC_ADMIN_TOKENS')
  expect(text).not.toContain(secrets.SVC_ADMIN_TOKENS)
  rmSync(realpathSync(join(dataDir, 'postgres')), { recursive: true, force: true })
})
