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

export const windows: Platform = {
  title: 'Windows',
  folders: (env, home) => ({ data: localData(env, home), config: localData(env, home) }),
  pathSeparator: ';',
  systemServices: null,
  keeper: tasks,
}
