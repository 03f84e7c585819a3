import { join } from 'node:path'
import type { SourceFile } from 'typescript/unstable/ast'
import { API, DiagnosticCategory, type Project } from 'typescript/unstable/async'

/** Of an unused name or an unreachable statement: an edit may leave those behind. */
const leftBehind: ReadonlySet<number> = new Set([6133, 6192, 6196, 6198, 6199, 6205, 7027, 7028])

/** The compiler's settings of a checkout, for a few of its files: reading all of them takes 1.3 GB. It is on no disk. */
const projectName = 'tsconfig.mutants.json'

/** Reads some sources of a checkout, and says whether another text of one of them still compiles. No file is written. */
export class Compiler {
  /** The file that has another text now. */
  private shown: { readonly path: string; readonly text: string } | null = null
  private readonly api: API

  private readonly project: string

  private constructor(
    private readonly root: string,
    files: readonly string[],
  ) {
    this.project = join(root, projectName)
    const settings = JSON.stringify({ extends: './tsconfig.json', include: [], files })
    const readFile = (path: string) =>
      path === this.shown?.path ? this.shown.text : path === this.project ? settings : undefined
    const fileExists = (path: string) => (path === this.project ? true : undefined)
    this.api = new API({ cwd: root, fs: { readFile, fileExists } })
  }

  static async open(root: string, files: readonly string[]): Promise<Compiler> {
    const compiler = new Compiler(root, files)
    await compiler.api.updateSnapshot({ openProjects: [compiler.project] })
    return compiler
  }

  async source(file: string): Promise<SourceFile> {
    return this.inProject(null, async ({ program }) => {
      const source = await program.getSourceFile(join(this.root, file))
      if (source === undefined) throw new Error(`the compiler does not know ${file}`)
      return source
    })
  }

  /** Only what is wrong with the file itself counts. */
  async accepts(file: string, text: string): Promise<boolean> {
    const path = join(this.root, file)
    return this.inProject({ path, text }, async ({ program }) => {
      if ((await program.getSyntacticDiagnostics(path)).length > 0) return false
      const found = await program.getSemanticDiagnostics(path)
      return !found.some(({ category, code }) => category === DiagnosticCategory.Error && !leftBehind.has(code))
    })
  }

  close(): Promise<void> {
    return this.api.close()
  }

  private async inProject<T>(shown: Compiler['shown'], read: (project: Project) => Promise<T>): Promise<T> {
    const changed = [this.shown, shown].flatMap((one) => (one === null ? [] : [one.path]))
    this.shown = shown
    const snapshot = await this.api.updateSnapshot({ fileChanges: { changed } })
    try {
      const project = snapshot.getProject(this.project)
      if (project === undefined) throw new Error('the compiler has no project')
      return await read(project)
    } finally {
      await snapshot.dispose()
    }
  }
}
