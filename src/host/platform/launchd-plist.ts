import { checkWord, markPlace, type ServiceSpec } from './service.ts'

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }
const xml = (text: string) => checkWord(text).replaceAll(/[&<>]/g, (sign) => entities[sign] ?? sign)

export interface PlistParts {
  readonly label: string
  /** Lines of the comment. `--` may not stand in one. */
  readonly header: readonly string[]
  readonly command: readonly string[]
  /** null: where launchd starts programs. */
  readonly folder: string | null
  readonly environment: Readonly<Record<string, string>>
  /** Where both of its streams go; null: nowhere. */
  readonly log: string | null
  /** How long it may take to end, s. */
  readonly exitSeconds: number
}

const string = (text: string) => `<string>${xml(text)}</string>`
const entry = (key: string, ...value: readonly string[]) => [`  <key>${key}</key>`, ...value.map((line) => `  ${line}`)]

/** A property list that launchd reads (launchd.plist(5)). */
export function launchdPlist(parts: PlistParts): string {
  const { label, header, command, folder, environment, log, exitSeconds } = parts
  const variables = Object.entries(environment).flatMap(([name, value]) => [
    `  <key>${xml(name)}</key>`,
    `  ${string(value)}`,
  ])
  return `${[
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    `<!-- ${header.join('\n     ')} -->`,
    '<plist version="1.0">',
    '<dict>',
    ...entry('Label', string(label)),
    ...entry('ProgramArguments', '<array>', ...command.map((word) => `  ${string(word)}`), '</array>'),
    ...(folder === null ? [] : entry('WorkingDirectory', string(folder))),
    ...(variables.length === 0 ? [] : entry('EnvironmentVariables', '<dict>', ...variables, '</dict>')),
    ...(log === null ? [] : [...entry('StandardOutPath', string(log)), ...entry('StandardErrorPath', string(log))]),
    ...entry('RunAtLoad', '<true/>'),
    '  <!-- An agent ends orderly when an operator revokes it, and must not come back. -->',
    ...entry('KeepAlive', '<dict>', '  <key>SuccessfulExit</key>', '  <false/>', '</dict>'),
    '  <!-- Running answers may end. -->',
    ...entry('ExitTimeOut', `<integer>${exitSeconds}</integer>`),
    ...entry('SoftResourceLimits', '<dict>', '  <key>NumberOfFiles</key>', '  <integer>65536</integer>', '</dict>'),
    '</dict>',
    '</plist>',
  ].join('\n')}\n`
}

export const exitSeconds = { gateway: 60, agent: 45 } as const

/** launchd reads no file of variables, so a shell does; the words behind `penstock` are its arguments, never its text. */
const withVariables = 'set -a; [ ! -f "$1" ] || . "$1"; set +a; shift; exec "$@"'

export const plistOf = (spec: ServiceSpec, label: string, log: string): string =>
  launchdPlist({
    label,
    header: [
      `Written by penstock ${spec.kind === 'gateway' ? 'service' : 'node'} install, which also replaces and removes it.`,
      markPlace,
    ],
    command: ['/bin/sh', '-c', withVariables, 'penstock', spec.environmentFile, ...spec.command],
    folder: spec.folder,
    environment: spec.environment,
    log,
    exitSeconds: exitSeconds[spec.kind],
  })
