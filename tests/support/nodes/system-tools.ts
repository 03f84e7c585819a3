import { existsSync, mkdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The tools by which systems keep services, as programs that record what they were asked and say what such a system says. */
export interface SystemTools {
  /** Finds them first. */
  readonly env: Readonly<Record<string, string>>
  /** What was asked since, without questions about the state. */
  calls(): readonly string[]
  forget(): void
  /** A call with this word fails from now on. */
  fails(word: string): void
  works(): void
  /** No service runs. */
  gone(): void
  /** A call with this word does not return; `called` runs when it is there. */
  hangs(word: string, called: () => void): void
}

const tools: Readonly<Record<string, string>> = {
  systemctl: `
case "$*" in
  *show*) cat state 2>/dev/null || echo LoadState=not-found; exit ;;
esac
record "$@"
case "$*" in
  *" start "*|*" restart "*|"start "*|"restart "*) printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nMainPID=4711\\n' >state ;;
  *disable*) rm -f state ;;
esac`,
  loginctl: 'record "$@"',
  launchctl: `
case "$1" in
  print) cat state 2>/dev/null || exit 113; exit ;;
esac
record "$@"
case "$1" in
  kickstart) printf 'gui/501/penstock-node = {\\n\\tstate = running\\n\\tpid = 4711\\n}\\n' >state ;;
  bootout) [ -e state ] || exit 3; rm -f state ;;
esac`,
  schtasks: `
record "$@"
case "$1" in
  /Run) echo Running >state ;;
  /End) [ -e state ] || exit 1 ;;
  /Delete) rm -f state ;;
esac`,
  powershell: 'cat state 2>/dev/null',
}

const prelude = (folder: string) => `#!/bin/sh
cd "${folder}"
record() {
  echo "$*" >>calls
  for word in "$@"; do
    [ ! -e "fails-$(echo "$word" | tr / _)" ] || { echo "refused by the system" >&2; exit 1; }
    [ ! -e "hangs-$(echo "$word" | tr / _)" ] || { touch hanging; exec sleep 60; }
  done
}`

export function systemTools(home: string): SystemTools {
  const folder = join(home, 'tools')
  mkdirSync(join(folder, 'bin'), { recursive: true })
  for (const [name, script] of Object.entries(tools)) {
    writeFileSync(join(folder, 'bin', name), `${prelude(folder)}\n${script}\n`, { mode: 0o755 })
  }
  const calls = join(folder, 'calls')
  const marks: string[] = []
  const mark = (name: string) => {
    marks.push(join(folder, name))
    writeFileSync(join(folder, name), '')
  }
  return {
    env: { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: home },
    calls: () => (existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : []),
    forget: () => rmSync(calls, { force: true }),
    fails: (word) => mark(`fails-${word.replaceAll('/', '_')}`),
    works: () => {
      for (const file of marks.splice(0)) rmSync(file, { force: true })
    },
    gone: () => rmSync(join(folder, 'state'), { force: true }),
    hangs: (word, called) => {
      mark(`hangs-${word.replaceAll('/', '_')}`)
      const watcher = watch(folder, (_, name) => {
        if (name !== 'hanging') return
        watcher.close()
        called()
      })
    },
  }
}
