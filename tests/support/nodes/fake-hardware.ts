import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A computer that is none of ours: tools on a PATH of its own, and files of a kernel. */
export interface FakeHardware {
  readonly place: string
  /** `PATH` for its tools. */
  readonly path: string
  /** Of its file system. */
  readonly root: string
  tool(name: string, script: string): void
  file(path: string, text: string): void
  remove(): void
}

export function fakeHardware(): FakeHardware {
  const place = mkdtempSync(join(tmpdir(), 'penstock-hardware-'))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  return {
    place,
    path: `${join(place, 'bin')}:/usr/bin:/bin`,
    root: join(place, 'root'),
    tool: (name, script) => {
      const file = join(place, 'bin', name)
      write(file, `#!/bin/sh\n${script}\n`)
      chmodSync(file, 0o755)
    },
    file: (path, text) => write(join(place, 'root', path), text),
    remove: () => rmSync(place, { recursive: true, force: true }),
  }
}

/** A laptop with a GPU, all of whose sensors speak. */
export function fakeLaptop(): FakeHardware {
  const made = fakeHardware()
  made.tool('nvidia-smi', 'echo "NVIDIA RTX 4060 Laptop GPU, 8188, 1024, 37, 54, 81.42"')
  made.file('proc/meminfo', 'MemTotal:       16384000 kB\nMemAvailable:   8192000 kB\n')
  made.file('proc/stat', 'cpu  100 0 100 800 0 0 0 0 0 0\n')
  made.file('sys/class/power_supply/BAT0/capacity', '87\n')
  made.file('sys/class/power_supply/BAT0/status', 'Charging\n')
  return made
}
