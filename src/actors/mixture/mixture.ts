import { createActor, fromCallback, fromPromise, type InspectionEvent, toPromise } from 'xstate'
import { problemFor } from '../../db/outage.ts'
import { Problem } from '../../errors.ts'
import { type Grant, textBytes, uncountedBytesMax } from '../../host/budget.ts'
import type { RequestId } from '../../ids.ts'
import type {
  AdmitInput,
  AdmitOutput,
  MixtureEvent,
  MixtureInput,
  PlanInput,
  SettleInput,
  SubCallInput,
} from '../../machines/mixture/context.ts'
import { mixtureDeadlines } from '../../machines/mixture/deadlines.ts'
import { mixtureMachine } from '../../machines/mixture/machine.ts'
import { isStrategyName } from '../../machines/mixture/strategies/registry.ts'
import type { MixtureReport, PlannedExpert } from '../../machines/mixture/types.ts'
import { Roster } from '../../roster.ts'
import { type ChatAnswer, uncalled } from '../chat/chat-command.ts'
import { type BufferedStream, bufferedStream, type StreamEnd } from './buffered-stream.ts'
import {
  bufferedAnswer,
  isSucceeded,
  recordOf,
  type SucceededReport,
  streamEvents,
  usageOfReport,
  wholeBody,
} from './mixture-answer.ts'
import type { MixtureRecord, MixtureRecords } from './mixture-records.ts'
import { type MixtureCommand, type MixturePort, MixtureRun } from './mixture-run.ts'

export interface MixtureOptions extends MixturePort {
  readonly records: MixtureRecords
  readonly inspect: (event: InspectionEvent) => void
  readonly counted: (strategy: string, outcome: string) => void
}

const clientClosedStatus = 499

/** The chart with its effects. It is made once and finds each run by its request, so that no request rebuilds it. */
function provided(runs: Roster<'openPlace', MixtureRun>) {
  const runOf = ({ requestId }: { readonly requestId: RequestId }): MixtureRun => {
    for (const run of runs) if (run.command.requestId === requestId) return run
    throw new Error('the mixture is over')
  }
  return mixtureMachine.provide({
    actors: {
      admit: fromPromise<AdmitOutput, AdmitInput>(({ input, signal }) =>
        runOf(input)
          .admit(input.tokens, signal)
          .catch((error: unknown) => {
            if (error instanceof Problem) return error
            throw error
          }),
      ),
      plan: fromPromise<readonly PlannedExpert[], PlanInput>(async ({ input }) => runOf(input).plan(input)),
      runSubCall: fromCallback<MixtureEvent, SubCallInput>(({ input, sendBack }) =>
        runOf(input).runSubCall(input, sendBack),
      ),
      settle: fromPromise<void, SettleInput>(async ({ input }) => runOf(input).settle(input.tokens)),
    },
  })
}

/** Something that has not ended, and what ends it early. */
interface Stopper {
  readonly stop: () => void
  openPlace: number
}

export class Mixtures {
  private readonly runs = new Roster<'openPlace', MixtureRun>('openPlace')
  private readonly stoppers = new Roster<'openPlace', Stopper>('openPlace')
  private readonly machine = provided(this.runs)

  constructor(private readonly options: MixtureOptions) {}

  /** The number of mixtures and buffered streams that have not ended. */
  get open(): number {
    return this.stoppers.size
  }

  /** Ends running mixtures with 503 and sends finished answers at once. */
  abortAll(): void {
    for (const { stop } of [...this.stoppers]) stop()
  }

  /** Metadata of the last mixtures, newest first, at most `limit`. */
  recent(limit: number): readonly MixtureRecord[] {
    return this.options.records.recent(limit)
  }

  /**
   * Resolves when every sub-call has ended. Refusals and a missed quorum reject with a `Problem`, and a client that
   * left with an abort.
   */
  async complete(command: MixtureCommand): Promise<ChatAnswer> {
    const run = new MixtureRun(this.options, command)
    let report: MixtureReport
    try {
      report = await this.runToEnd(run)
    } catch (error) {
      const problem = problemFor(error)
      run.dropKept()
      run.span?.end(problem.code)
      this.finish(command, problem.status, problem, null)
      throw error
    }
    const record = this.remember(report, command)
    const code = report.end.kind === 'failed' ? report.end.problem.code : null
    if (record === null) run.span?.end(code)
    else run.span?.endMixture(record, code)
    if (!isSucceeded(report)) {
      run.dropKept()
      throw this.refusal(report, command)
    }
    return this.answer(report, run)
  }

  /** Rejects only for defects. */
  private async runToEnd(run: MixtureRun): Promise<MixtureReport> {
    const { command } = run
    const { requestId, signal } = command
    this.runs.add(run)
    const actor = createActor(this.machine, {
      id: requestId,
      input: this.inputOf(command),
      inspect: this.options.inspect,
    })
    const gone = () => actor.send({ type: 'client.gone' })
    const stopper = this.stoppable(() => {
      run.stopping = true
      actor.send({ type: 'gateway.stopping' })
    })
    try {
      const ended = toPromise(actor)
      actor.start()
      if (signal.aborted) gone()
      else signal.addEventListener('abort', gone, { once: true })
      return await ended
    } finally {
      signal.removeEventListener('abort', gone)
      this.stoppers.delete(stopper)
      actor.stop()
      // A chart that failed has not settled. If it has, this does nothing.
      run.settle(0)
      this.runs.delete(run)
    }
  }

  private stoppable(stop: () => void): Stopper {
    const stopper = { stop, openPlace: -1 }
    this.stoppers.add(stopper)
    return stopper
  }

  private inputOf({ requestId, startedMs, body, pinParam, access }: MixtureCommand): MixtureInput {
    const { config, router } = this.options
    const elapsedMs = performance.now() - startedMs
    return {
      requestId,
      request: {
        body,
        pinParam,
        access,
        table: router.table(),
        nowMs: Date.now(),
        bounds: {
          expertsMax: config.SVC_MIXTURE_EXPERTS_MAX,
          tokensMax: config.SVC_MIXTURE_TOKENS_MAX,
          outputTokensDefault: config.SVC_MIXTURE_OUTPUT_TOKENS_DEFAULT,
        },
      },
      deadlines: mixtureDeadlines(body.svc?.mixture, config.SVC_MIXTURE_DEADLINE_MS, elapsedMs),
    }
  }

  /** Ignores a configuration with an unknown strategy, so that clients cannot fill the metrics with names. */
  private remember(report: MixtureReport, command: MixtureCommand): MixtureRecord | null {
    const strategy = report.config?.strategy ?? null
    if (!isStrategyName(strategy)) return null
    const record = recordOf(report, strategy, command)
    this.options.records.record(record)
    this.options.counted(strategy, record.outcome)
    return record
  }

  private refusal(report: MixtureReport, command: MixtureCommand): Error {
    const { end } = report
    const problem = end.kind === 'failed' ? end.problem : null
    this.finish(command, problem?.status ?? clientClosedStatus, problem, report)
    return problem ?? new DOMException('The client has left', 'AbortError')
  }

  private answer(report: SucceededReport, run: MixtureRun): ChatAnswer {
    const { command, headers } = run
    const answer = bufferedAnswer(report, command)
    if (command.body.stream !== true) {
      this.finish(command, 200, null, report)
      const body = wholeBody(answer, command)
      run.dropKept()
      return { kind: 'whole', body, kept: this.keptFor(command, body), headers }
    }
    const buffered: BufferedStream = bufferedStream(
      streamEvents(answer, command),
      this.options.config.SVC_SLOW_CLIENT_TIMEOUT_MS,
      (how: StreamEnd) => {
        run.dropKept()
        this.stoppers.delete(stopper)
        this.finish(command, how === 'sent' ? 200 : clientClosedStatus, null, report)
      },
    )
    const stopper = this.stoppable(buffered.flush)
    return { kind: 'stream', stream: buffered.stream, headers }
  }

  private keptFor({ access }: MixtureCommand, body: string): Grant | null {
    const bytes = textBytes(body.length)
    if (bytes <= uncountedBytesMax) return null
    const kept = this.options.memory.open(access.customerId, null)
    kept.settle(bytes)
    return kept
  }

  /** `model` is null, because the sub-calls count for their models. */
  private finish(
    { startedMs, body, recorder }: MixtureCommand,
    status: number,
    problem: Problem | null,
    report: MixtureReport | null,
  ): void {
    const latencyMs = performance.now() - startedMs
    recorder.record({
      model: null,
      status,
      code: problem?.code ?? null,
      latencyMs,
      // Nothing is sent before every sub-call has ended, and a whole answer has no first token.
      ttftMs: status === 200 && body.stream === true ? latencyMs : null,
      usage: report === null ? null : usageOfReport(report).usage,
      attempts: report === null ? 0 : report.experts.length,
      ...uncalled,
      jobId: body.svc?.job_id ?? null,
    })
  }
}
