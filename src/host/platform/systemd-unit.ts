import { product } from '../../brand.ts'
import { checkWord, ServiceFault, type ServiceSpec } from './service.ts'

/** `%` begins a specifier of systemd. */
const plain = (text: string) => checkWord(text).replaceAll('%', '%%')

/** A word of `Environment=` or `ExecStart=` (systemd.service(5), "Command lines"). */
function word(text: string, dollar: string): string {
  const escaped = plain(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('$', dollar)
  return /^[A-Za-z0-9_@:.,=+/%-]+$/.test(escaped) ? escaped : `"${escaped}"`
}

/** systemd takes no program whose path has a quote, a backslash or a variable. Throws `ServiceFault`. */
function execStart([program = '', ...words]: readonly string[]): string {
  if (/["'\\$]/.test(program)) {
    throw new ServiceFault(`systemd cannot start ${program}: its path may have no quote, backslash or $. Move it.`)
  }
  return [program, ...words].map((part) => word(part, '$$$$')).join(' ')
}

const variables = (environment: ServiceSpec['environment']): readonly string[] =>
  Object.entries(environment).map(([name, value]) => `Environment=${word(`${name}=${value}`, '$')}`)

/** What a unit is made of: the parts of a spec in systemd's own syntax, so that `ops` may use specifiers and a shell. */
export interface UnitParts {
  /** Comment lines, without their `#`. */
  readonly header: readonly string[]
  readonly scope: ServiceSpec['scope']
  readonly runAs: string
  /** A folder below /var/lib that systemd makes for it; null: none. */
  readonly stateFolder: string | null
  readonly folder: string
  readonly environment: readonly string[]
  readonly environmentFile: string | null
  readonly exec: readonly string[]
}

export const partsOf = (spec: ServiceSpec, header: readonly string[]): UnitParts => ({
  header,
  scope: spec.scope,
  runAs: spec.runAs,
  stateFolder: spec.scope === 'system' && spec.kind === 'gateway' ? product : null,
  folder: plain(spec.folder),
  environment: variables(spec.environment),
  environmentFile: plain(spec.environmentFile),
  exec: [`ExecStart=${execStart(spec.command)}`],
})

const target = { user: 'default.target', system: 'multi-user.target' } as const

function unit(parts: UnitParts, description: readonly string[], service: readonly string[]): string {
  const { header, scope, runAs, stateFolder, folder, environment, environmentFile } = parts
  return `${[
    ...header.map((line) => `# ${line}`),
    '[Unit]',
    ...description,
    '',
    '[Service]',
    ...(scope === 'system' ? [`User=${runAs}`] : []),
    `WorkingDirectory=${folder}`,
    ...(stateFolder === null ? [] : [`StateDirectory=${stateFolder}`, 'StateDirectoryMode=0700']),
    ...environment,
    ...(environmentFile === null ? [] : [`EnvironmentFile=-${environmentFile}`]),
    ...service,
    '',
    '[Install]',
    `WantedBy=${target[scope]}`,
  ].join('\n')}\n`
}

/** A user manager may not make the namespaces of the others. */
const closedToAll = ['NoNewPrivileges=true', 'RestrictSUIDSGID=true', 'LockPersonality=true']
const closedSystem = [
  '# `systemd-analyze security penstock` says 2.5 at most. Bun compiles while it runs, so memory may be both written and run.',
  'NoNewPrivileges=true',
  'ProtectSystem=strict',
  'ProtectHome=true',
  'PrivateTmp=true',
  'PrivateDevices=true',
  'PrivateUsers=true',
  'ProtectClock=true',
  'ProtectControlGroups=true',
  'ProtectHostname=true',
  'ProtectKernelLogs=true',
  'ProtectKernelModules=true',
  'ProtectKernelTunables=true',
  'ProtectProc=invisible',
  'ProcSubset=pid',
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
  'RestrictNamespaces=true',
  'RestrictRealtime=true',
  'RestrictSUIDSGID=true',
  'LockPersonality=true',
  'RemoveIPC=true',
  'CapabilityBoundingSet=',
  'AmbientCapabilities=',
  'SystemCallArchitectures=native',
  'SystemCallFilter=@system-service',
  'SystemCallFilter=~@privileged @resources',
  'SystemCallErrorNumber=EPERM',
  'UMask=0077',
]

/** The unit of a gateway. `documentation`: a `file:` URL; null: it has no checkout. */
export function gatewayUnit(parts: UnitParts, documentation: string | null): string {
  const after = parts.scope === 'system' ? 'network-online.target postgresql.service' : 'network-online.target'
  return unit(
    parts,
    [
      'Description=Penstock, a gateway for model servers',
      ...(documentation === null ? [] : [`Documentation=${documentation}`]),
      `After=${after}`,
      'Wants=network-online.target',
    ],
    [
      ...parts.exec,
      '# Only the gateway gets the signal to stop. It stops its database itself, after its last write.',
      'KillMode=mixed',
      '# More than SVC_DRAIN_MS, SVC_SHUTDOWN_GRACE_MS and the stop of the database together.',
      'TimeoutStopSec=60',
      'Restart=on-failure',
      'RestartSec=2',
      '# Each stream needs two (client and node); polls and the database need some.',
      'LimitNOFILE=65536',
      '',
      ...(parts.scope === 'system' ? closedSystem : [...closedToAll, 'UMask=0077']),
    ],
  )
}

/** The unit of a node agent. */
export function agentUnit(parts: UnitParts): string {
  return unit(
    parts,
    ['Description=Penstock node agent, beside the model servers of this computer', 'After=network-online.target'],
    [
      ...parts.exec,
      '# Running answers may end.',
      'TimeoutStopSec=45',
      '# The agent ends orderly when an operator revokes it, and must not come back.',
      'Restart=on-failure',
      'RestartSec=5',
      'LimitNOFILE=65536',
      '',
      ...closedToAll,
    ],
  )
}
