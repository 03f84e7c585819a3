import { join } from 'node:path'
import { product } from '../../brand.ts'
import { plistOf } from './launchd-plist.ts'
import type { Platform } from './platform.ts'
import { posixFolders } from './posix-folders.ts'
import type { Answered, ServiceKeeper, ServiceName, ServicePlace, ServiceState, ServiceStep } from './service.ts'
import { withMark } from './service.ts'

const labelOf = ({ kind }: ServiceName) => (kind === 'gateway' ? product : `${product}-node`)
/** launchd's name of a user's session (launchctl(1), "target specifiers"). */
const domainOf = ({ uid }: ServicePlace) => `gui/${uid}`
const targetOf = (service: ServiceName, place: ServicePlace) => `${domainOf(place)}/${labelOf(service)}`
const logOf = (service: ServiceName, { home }: ServicePlace) => join(home, 'Library/Logs', `${labelOf(service)}.log`)

const must = (command: readonly string[]): ServiceStep => ({ command, otherwise: null })
/** A service that is not loaded cannot be unloaded, which is what was wanted. */
const unload = (service: ServiceName, place: ServicePlace): ServiceStep => ({
  command: ['launchctl', 'bootout', targetOf(service, place)],
  otherwise: '',
})

/** `launchctl print` indents the facts of the service itself by one tab. */
function read({ code, out }: Answered): ServiceState {
  if (code !== 0) return { state: 'absent', pid: null, automatic: false }
  const fact = (name: string) => new RegExp(`^\\t${name} = (.+)$`, 'm').exec(out)?.[1] ?? null
  const pid = Number(fact('pid') ?? 0)
  const state = fact('state')
  if (state === 'running') return { state: 'running', pid: pid > 0 ? pid : null, automatic: true }
  const failed = !['0', '(never exited)', null].includes(fact('last exit code'))
  return { state: failed ? 'failed' : 'stopped', pid: null, automatic: true }
}

const launchd: ServiceKeeper = {
  title: 'launchd',
  readsVariables: true,
  tool: 'launchctl',
  path: (service, { home }) => join(home, 'Library/LaunchAgents', `${labelOf(service)}.plist`),
  file: (spec, place) => ({
    path: launchd.path(spec, place),
    text: withMark(plistOf(spec, labelOf(spec), logOf(spec, place))),
    encoding: 'utf8',
  }),
  start: (service, place, changed) => [
    must(['launchctl', 'enable', targetOf(service, place)]),
    ...(changed ? [unload(service, place)] : []),
    // What is loaded already cannot be loaded, and then runs as it should.
    changed
      ? must(['launchctl', 'bootstrap', domainOf(place), launchd.path(service, place)])
      : { command: ['launchctl', 'bootstrap', domainOf(place), launchd.path(service, place)], otherwise: '' },
    must(['launchctl', 'kickstart', targetOf(service, place)]),
  ],
  stop: (service, place) => [unload(service, place)],
  forget: () => [],
  logs: (service, place) => `tail -f ${logOf(service, place)}`,
  query: (service, place) => ['launchctl', 'print', targetOf(service, place)],
  read,
}

export const macos: Platform = {
  title: 'macOS',
  folders: (env, home) => {
    const named = env.XDG_DATA_HOME ?? ''
    return { data: named === '' ? join(home, '.local/share') : named, config: join(home, '.config') }
  },
  servicesHavePath: false,
  systemServices: null,
  keeper: launchd,
  folderRules: posixFolders,
  endTree: null,
}
