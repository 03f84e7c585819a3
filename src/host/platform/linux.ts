import { join } from 'node:path'
import { product } from '../../brand.ts'
import type { Platform } from './platform.ts'
import { posixFolders } from './posix-folders.ts'
import type { Answered, ServiceKeeper, ServiceName, ServicePlace, ServiceState, ServiceStep } from './service.ts'
import { markPlace, withMark } from './service.ts'
import { agentUnit, gatewayUnit, partsOf } from './systemd-unit.ts'

const unitOf = ({ kind }: ServiceName) => (kind === 'gateway' ? product : `${product}-node`)
const commandOf = ({ kind }: ServiceName) => (kind === 'gateway' ? 'service' : 'node')
const manager = ({ scope }: ServiceName) => (scope === 'user' ? ['--user'] : [])
const systemctl = (service: ServiceName, ...words: readonly string[]): readonly string[] => [
  'systemctl',
  ...manager(service),
  ...words,
]
const must = (command: readonly string[]): ServiceStep => ({ command, otherwise: null })

const lingers: ServiceStep = {
  command: ['loginctl', 'enable-linger'],
  otherwise:
    'It runs only while you are logged in. To let it start with the computer: sudo loginctl enable-linger $USER',
}

/** systemd calls a program that it starts again after a failure `activating`. */
const states: Readonly<Record<string, ServiceState['state']>> = {
  active: 'running',
  reloading: 'running',
  activating: 'starting',
  inactive: 'stopped',
  deactivating: 'stopped',
  failed: 'failed',
}

function read({ code, out }: Answered): ServiceState {
  const facts = new Map(
    out.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  if (code !== 0 || !facts.has('LoadState')) return { state: 'unknown', pid: null, automatic: null }
  if (facts.get('LoadState') === 'not-found') return { state: 'absent', pid: null, automatic: false }
  const pid = Number(facts.get('MainPID'))
  return {
    state: states[facts.get('ActiveState') ?? ''] ?? 'unknown',
    pid: pid > 0 ? pid : null,
    automatic: facts.get('UnitFileState') === 'enabled',
  }
}

/** The user's own units are where systemd looks for them (systemd.unit(5)). */
const configHome = ({ home, env }: ServicePlace) => {
  const named = env.XDG_CONFIG_HOME ?? ''
  return named === '' ? join(home, '.config') : named
}

const systemd: ServiceKeeper = {
  title: 'systemd',
  readsVariables: true,
  tool: 'systemctl',
  path: (service, place) =>
    join(
      service.scope === 'user' ? join(configHome(place), 'systemd/user') : '/etc/systemd/system',
      `${unitOf(service)}.service`,
    ),
  file: (spec, place) => {
    const header = [
      `Written by \`penstock ${commandOf(spec)} install\`, which also replaces and removes it. Put changes of your own into a`,
      `drop-in (systemctl ${[...manager(spec), 'edit', unitOf(spec)].join(' ')}). ${markPlace}`,
    ]
    const parts = partsOf(spec, header)
    const text = spec.kind === 'gateway' ? gatewayUnit(parts, null) : agentUnit(parts)
    return { path: systemd.path(spec, place), text: withMark(text), encoding: 'utf8' }
  },
  start: (service, _place, changed) => [
    ...(changed ? [must(systemctl(service, 'daemon-reload'))] : []),
    must(systemctl(service, 'enable', unitOf(service))),
    must(systemctl(service, changed ? 'restart' : 'start', unitOf(service))),
    ...(service.scope === 'user' ? [lingers] : []),
  ],
  stop: (service) => [must(systemctl(service, 'disable', '--now', unitOf(service)))],
  forget: (service) => [must(systemctl(service, 'daemon-reload'))],
  logs: (service) => ['journalctl', ...manager(service), '-u', unitOf(service)].join(' '),
  query: (service) =>
    systemctl(service, 'show', unitOf(service), '--property=LoadState,ActiveState,UnitFileState,MainPID'),
  read,
}

export const linux: Platform = {
  title: 'Linux',
  folders: (env, home) => {
    const named = env.XDG_DATA_HOME ?? ''
    return { data: named === '' ? join(home, '.local/share') : named, config: join(home, '.config') }
  },
  servicesHavePath: false,
  systemServices: {
    searched: ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'],
    /** By `ProtectHome=`. */
    hidden: ['/home', '/root', '/run/user'],
  },
  keeper: systemd,
  folderRules: posixFolders,
  endTree: null,
}
