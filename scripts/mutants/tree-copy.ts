import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { git } from './changed-lines.ts'
import { type Mutant, mutated } from './edit.ts'

/** The files of a checkout, copied so that edits never touch it. The packages are its own, by a link. */
export class TreeCopy {
  constructor(
    root: string,
    readonly folder: string,
  ) {
    const files = git(root, 'ls-files', '--cached', '--others', '--exclude-standard', '-z').split('\0')
    for (const file of files) {
      // Git lists a file that was deleted, and not committed, too.
      if (file === '' || !existsSync(join(root, file))) continue
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      copyFileSync(join(root, file), join(folder, file))
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  }

  /** Edits the copy for as long as the work runs. */
  async withEdit<T>(mutant: Mutant, work: () => Promise<T>): Promise<T> {
    const path = join(this.folder, mutant.file)
    const source = readFileSync(path, 'utf8')
    writeFileSync(path, mutated(source, mutant, mutant.text))
    try {
      return await work()
    } finally {
      writeFileSync(path, source)
    }
  }
}
