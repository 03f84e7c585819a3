import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { platformNamed } from '../../src/host/platform/platforms.ts'
import { authorOf, type ServiceKeeper, type ServiceSpec } from '../../src/host/platform/service.ts'
import {
  installService,
  type ServiceWork,
  serviceState,
  uninstallService,
} from '../../src/host/platform/service-work.ts'
import { type SystemTools, systemTools } from '../support/nodes/system-tools.ts'

const homes: string[] = []
afterAll(() => {
  for (const home of homes) rmSync(home, { recursive: true, force: true })
})

interface Computer {
  readonly work: ServiceWork
  readonly tools: SystemTools
  readonly home: string
}

function keeperOf(system: string): ServiceKeeper {
  const keeper = platformNamed(system)?.keeper
  if (keeper === undefined) throw new Error(system)
  return keeper
}

function computer(system: string): Computer {
  const home = mkdtempSync(join(tmpdir(), 'penstock-services-'))
  homes.push(home)
  const tools = systemTools(home)
  return { home, tools, work: { keeper: keeperOf(system), place: { home, uid: 501, env: tools.env } } }
}

const spec = (home: string): ServiceSpec => ({
  kind: 'agent',
  scope: 'user',
  command: ['/opt/a folder/penstock', 'node', '--runtime=http://127.0.0.1:8000'],
  folder: '/opt/a folder',
  environment: { PATH: '/usr/bin:/bin' },
  environmentFile: join(home, 'node.env'),
  runAs: 'ann',
})

/** What each system is asked, in order. `FILE` stands for the file that was written. */
const asked = {
  linux: {
    first: ['--user daemon-reload', '--user enable penstock-node', '--user restart penstock-node', 'enable-linger'],
    again: ['--user enable penstock-node', '--user start penstock-node', 'enable-linger'],
    removal: ['--user disable --now penstock-node', '--user daemon-reload'],
  },
  darwin: {
    first: [
      'enable gui/501/penstock-node',
      'bootout gui/501/penstock-node',
      'bootstrap gui/501 FILE',
      'kickstart gui/501/penstock-node',
    ],
    again: ['enable gui/501/penstock-node', 'bootstrap gui/501 FILE', 'kickstart gui/501/penstock-node'],
    removal: ['bootout gui/501/penstock-node'],
  },
  win32: {
    first: ['/End /TN penstock-node', '/Create /TN penstock-node /XML FILE /F', '/Run /TN penstock-node'],
    again: ['/Create /TN penstock-node /XML FILE /F', '/Run /TN penstock-node'],
    removal: ['/End /TN penstock-node', '/Delete /TN penstock-node /F'],
  },
} as const

test.each(Object.entries(asked))(
  '§39: on %s a service is written once, started, found to run, left alone the second time, and removed',
  async (system, { first, again, removal }) => {
    const { work, tools, home } = computer(system)
    const file = work.keeper.path(spec(home), work.place)
    const calls = () => tools.calls().map((words) => words.replace(file, 'FILE'))
    expect((await serviceState(work, spec(home))).state).toBe('absent')
    tools.forget()
    expect(await installService(work, spec(home))).toEqual([])
    expect(calls()).toEqual([...first])
    const text = readFileSync(file, system === 'win32' ? 'utf16le' : 'utf8')
    expect([authorOf(text.replace(/^\ufeff/, '')), text.includes('/opt/a folder/penstock')]).toEqual(['ours', true])
    expect((await serviceState(work, spec(home))).state).toBe('running')
    tools.forget()
    await installService(work, spec(home))
    expect(calls()).toEqual([...again])
    tools.forget()
    expect(await uninstallService(work, spec(home))).toBe(true)
    expect([calls(), existsSync(file)]).toEqual([[...removal], false])
    // Nothing else was left, and a second removal has nothing to do.
    tools.forget()
    expect([await uninstallService(work, spec(home)), tools.calls()]).toEqual([false, []])
  },
)

test.each(Object.keys(asked))('§39: on %s a file that somebody wrote or edited stays', async (system) => {
  const { work, tools, home } = computer(system)
  const file = work.keeper.path(spec(home), work.place)
  const encoding = system === 'win32' ? 'utf16le' : 'utf8'
  mkdirSync(join(file, '..'), { recursive: true })
  writeFileSync(file, 'of somebody else', encoding)
  await expect(installService(work, spec(home))).rejects.toThrow('was not written by this command')
  await expect(uninstallService(work, spec(home))).rejects.toThrow('was not written by this command')
  expect([readFileSync(file, encoding), tools.calls()]).toEqual(['of somebody else', []])
  rmSync(file)
  await installService(work, spec(home))
  writeFileSync(file, `${readFileSync(file, encoding)}\n`, encoding)
  tools.forget()
  await expect(installService(work, spec(home))).rejects.toThrow('was edited after')
  await expect(uninstallService(work, spec(home))).rejects.toThrow('was edited after')
  expect([existsSync(file), tools.calls()]).toEqual([true, []])
})

test.each([
  ['linux', 'restart'],
  ['darwin', 'bootstrap'],
  ['win32', '/Run'],
] as const)(
  '§39: on %s a service that cannot be started leaves nothing behind, and the file as it was',
  async (system, word) => {
    const { work, tools, home } = computer(system)
    const file = work.keeper.path(spec(home), work.place)
    const encoding = system === 'win32' ? 'utf16le' : 'utf8'
    tools.fails(word)
    await expect(installService(work, spec(home))).rejects.toThrow('failed: refused by the system')
    expect(existsSync(file)).toBe(false)
    const removal = asked[system].removal
    expect(tools.calls().slice(-removal.length)).toEqual(removal.map((call) => call.replace('FILE', file)))
    tools.works()
    await installService(work, spec(home))
    const before = readFileSync(file, encoding)
    tools.fails(word)
    await expect(installService(work, { ...spec(home), environment: { PATH: '/bin' } })).rejects.toThrow('refused')
    expect(readFileSync(file, encoding)).toBe(before)
  },
)

test('§39: an installation that is left while the system works puts the file back', async () => {
  const { work, tools, home } = computer('linux')
  const leaving = new AbortController()
  tools.hangs('enable', () => leaving.abort())
  await expect(installService({ ...work, signal: leaving.signal }, spec(home))).rejects.toThrow('it was interrupted')
  expect(existsSync(work.keeper.path(spec(home), work.place))).toBe(false)
})

test('§39: without lingering the service is there, and its owner is told what is missing', async () => {
  const { work, tools, home } = computer('linux')
  tools.fails('enable-linger')
  expect(await installService(work, spec(home))).toEqual([expect.stringContaining('loginctl enable-linger')])
})

test('§39: nothing is written on a computer whose system keeps no services, or for a word that no unit holds', async () => {
  const { work, home } = computer('linux')
  const bare = { ...work, place: { ...work.place, env: { PATH: '/nowhere' } } }
  await expect(installService(bare, spec(home))).rejects.toThrow('This computer has no systemctl')
  expect((await serviceState(bare, spec(home))).state).toBe('unknown')
  const quoted = { ...spec(home), command: ['/opt/a"b/penstock'] }
  await expect(installService(work, quoted)).rejects.toThrow('Move it')
  const broken = { ...spec(home), command: ['/opt/penstock', 'a\nExecStartPost=/bin/evil'] }
  await expect(installService(work, broken)).rejects.toThrow('no control characters')
  const windows = computer('win32')
  const piped = { ...spec(windows.home), command: ['C:\\penstock.exe', '--runtime=http://a&calc'] }
  await expect(installService(windows.work, piped)).rejects.toThrow('leave out')
  for (const one of [work, windows.work]) expect(existsSync(one.keeper.path(spec(home), one.place))).toBe(false)
})

test.skipIf(Bun.which('systemd-analyze') === null)(
  '§39: systemd reads each word of a unit as it was given',
  async () => {
    const { work, home } = computer('linux')
    const folder = join(home, 'a folder of 100 % here')
    mkdirSync(folder)
    const program = join(folder, 'penstock')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
    for (const kind of ['gateway', 'agent'] as const) {
      const odd = { ...spec(home), kind, folder, command: [program, 'a b', "it's", '%h', '$PATH', '\\n', '#', ';'] }
      const { path, text } = work.keeper.file(odd, work.place)
      mkdirSync(join(path, '..'), { recursive: true })
      writeFileSync(path, text)
      const { exitCode, stderr } = Bun.spawnSync(['systemd-analyze', 'verify', '--recursive-errors=no', path])
      expect([exitCode, stderr.toString()]).toEqual([0, ''])
    }
  },
)

test("§39: a unit's words come to the program as they were given", async () => {
  const { work, home } = computer('darwin')
  const words = ['a b', "it's", '$HOME', '`id`', '"', '&', '<x>']
  const said = join(home, 'said')
  const program = join(home, 'program')
  writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" "$GIVEN" > "${said}"\n`, { mode: 0o755 })
  writeFileSync(join(home, 'node.env'), "GIVEN='a secret'\n")
  const { text } = work.keeper.file({ ...spec(home), command: [program, ...words] }, work.place)
  expect(text).not.toContain('a secret')
  const list = /<key>ProgramArguments<\/key>\s*<array>([\s\S]*?)<\/array>/.exec(text)?.[1] ?? ''
  const command = [...list.matchAll(/<string>([\s\S]*?)<\/string>/g)].map(([, word = '']) =>
    word.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
  )
  Bun.spawnSync([...command], { env: { HOME: home } })
  expect(readFileSync(said, 'utf8').split('\n')).toEqual([...words, 'a secret', ''])
})
