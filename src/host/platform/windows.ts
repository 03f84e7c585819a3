import { join } from 'node:path'
import { product } from '../../brand.ts'
import type { Platform } from './platform.ts'
import type { Answered, ServiceKeeper, ServiceName, ServicePlace, ServiceState, ServiceStep } from './service.ts'
import { withMark } from './service.ts'
import { taskText } from './windows-task.ts'

const taskOf = ({ kind }: ServiceName) => (kind === 'gateway' ? product : `${product}-node`)
const must = (command: readonly string[]): ServiceStep => ({ command, otherwise: null })
/** A task that does not run cannot be ended, which is what was wanted. */
const end = (service: ServiceName): ServiceStep => ({
  command: ['schtasks', '/End', '/TN', taskOf(service)],
  otherwise: '',
})

const localData = (env: ServicePlace['env'], home: string) => {
  const named = env.LOCALAPPDATA ?? ''
  return named === '' ? join(home, 'AppData', 'Local') : named
}
const folderOf = ({ env, home }: ServicePlace) => join(localData(env, home), product)
const logOf = (service: ServiceName, place: ServicePlace) => join(folderOf(place), `${taskOf(service)}.log`)

const states: Readonly<Record<string, ServiceState['state']>> = {
  Running: 'running',
  Queued: 'starting',
  Ready: 'stopped',
  Disabled: 'stopped',
}

function read({ code, out }: Answered): ServiceState {
  const word = out.trim()
  if (code !== 0 || word === '') return { state: 'absent', pid: null, automatic: false }
  return { state: states[word] ?? 'unknown', pid: null, automatic: word !== 'Disabled' }
}

const tasks: ServiceKeeper = {
  title: 'the Task Scheduler',
  readsVariables: false,
  tool: 'schtasks',
  path: (service, place) => join(folderOf(place), `${taskOf(service)}.task.xml`),
  file: (spec, place) => ({
    path: tasks.path(spec, place),
    text: withMark(taskText(spec, logOf(spec, place))),
    encoding: 'utf16le',
  }),
  start: (service, place, changed) => [
    ...(changed ? [end(service)] : []),
    must(['schtasks', '/Create', '/TN', taskOf(service), '/XML', tasks.path(service, place), '/F']),
    must(['schtasks', '/Run', '/TN', taskOf(service)]),
  ],
  stop: (service) => [end(service), must(['schtasks', '/Delete', '/TN', taskOf(service), '/F'])],
  forget: () => [],
  logs: (service, place) => `Get-Content -Wait "${logOf(service, place)}"`,
  // `schtasks /Query` answers in the language of the computer.
  query: (service) => [
    'powershell',
    '-NoProfile',
    '-NonInteractive',
    '-Command',
    `(Get-ScheduledTask -TaskName '${taskOf(service)}' -ErrorAction Stop).State`,
  ],
  read,
}

/** The computer itself keeps its access, as backups of the system need it. */
const systemAccount = '*S-1-5-18'

/** Windows has no permission bits. `icacls` comes with it. A folder cannot be opened there, so there is nothing to have written. */
function closeFolder(path: string): void {
  const { USERDOMAIN: domain = '', USERNAME: user = '' } = process.env
  const grants = [domain === '' ? user : `${domain}\\${user}`, systemAccount].flatMap((name) => [
    '/grant:r',
    `${name}:(OI)(CI)F`,
  ])
  const { exitCode } = Bun.spawnSync(['icacls', path, '/inheritance:r', ...grants, '/q'], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  if (exitCode !== 0) throw Object.assign(new Error(`${path} cannot be closed to other users`), { code: 'EACCES' })
}

/** Windows knows neither groups of processes nor a signal that asks one to end. */
function endTree(pid: number): void {
  Bun.spawnSync(['taskkill', '/T', '/F', '/PID', String(pid)], { stdio: ['ignore', 'ignore', 'ignore'] })
}

export const windows: Platform = {
  title: 'Windows',
  folders: (env, home) => ({ data: localData(env, home), config: localData(env, home) }),
  servicesHavePath: true,
  systemServices: null,
  keeper: tasks,
  folderRules: { close: closeFolder, sync: () => {} },
  endTree,
}
