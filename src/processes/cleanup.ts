import { failureName, type Log } from '../log.ts'

/** What was started, to be ended backwards. */
export class Cleanup {
  private readonly steps: (() => Promise<unknown> | unknown)[] = []

  constructor(private readonly log: Log) {
    this.add(() => log.flush())
  }

  add(step: () => Promise<unknown> | unknown): void {
    this.steps.push(step)
  }

  /** Does not reject: a step that fails is logged, and the others follow. */
  async run(): Promise<void> {
    for (const step of this.steps.splice(0).reverse()) {
      try {
        await step()
      } catch (error) {
        this.log.error('stop', { failure: failureName(error) })
      }
    }
  }
}
