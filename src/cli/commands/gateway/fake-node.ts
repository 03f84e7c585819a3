import type { FakeNode } from '../../../fake-node/fake-node.ts'
import { isLoopback } from '../../../host/loopback.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import { listenAddress } from '../../frame/listen-address.ts'
import type { Terminal } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'

function introduction(terminal: Terminal, node: FakeNode, models: readonly string[]): string {
  const line = (text: string) => terminal.style('bold', text)
  return `A node that fails on purpose: ${line(node.url)} serves ${models.join(', ')}

  ./penstock nodes add ${node.url}
  curl ${node.url}/faults -d '{"kind":"slowFirstToken","ms":15000}'
  curl ${node.url}/faults -d '[{"kind":"dropMidStream","afterChunks":2,"times":3}]'
  curl -X DELETE ${node.url}/faults
  curl ${node.url}/answer -d '{"chunks":200,"intervalMs":20}'
  curl ${node.url}/stats

All faults: docs/operations/nodes.md. Press Ctrl-C to end it.
`
}

export const fakeNode: Verb = {
  name: 'fake-node',
  about: 'Start a fake node that fails on purpose, to rehearse failures',
  actions: action({
    about: 'Start a fake node that speaks the OpenAI protocol and fails on purpose. POST /faults sets its faults',
    options: {
      listen: { kind: 'text', value: 'HOST:PORT', about: 'Where it listens (default 127.0.0.1:0, any free port)' },
      model: { kind: 'texts', value: 'ID', about: 'A model that it serves (default fake-model)' },
      name: { kind: 'text', value: 'TEXT', about: 'The start of every piece of text (default fake-)' },
      speaks: {
        kind: 'choice',
        of: ['openai', 'vllm', 'llama.cpp'],
        about: 'The kind of model server that it imitates',
      },
      slots: {
        kind: 'number',
        value: 'N',
        min: 1,
        max: 10_000,
        about: 'The number of slots that it shows, as llama.cpp does',
      },
      'context-length': {
        kind: 'number',
        value: 'N',
        min: 1,
        max: 100_000_000,
        about: 'Context length in tokens (default 8192)',
      },
    },
    run: async ({ options, json }, { terminal }) => {
      const address = listenAddress(options.listen ?? '127.0.0.1:0')
      const models = options.model.length === 0 ? ['fake-model'] : options.model
      const { startFakeNode } = await import('../../../fake-node/fake-node.ts')
      const ended = untilSignal()
      let node: FakeNode
      try {
        node = startFakeNode({
          ...address,
          models,
          ...(options.name === undefined ? {} : { name: options.name }),
          ...(options.speaks === undefined ? {} : { speaks: options.speaks }),
          ...(options.slots === undefined ? {} : { slots: options.slots }),
          ...(options['context-length'] === undefined ? {} : { contextLength: options['context-length'] }),
        })
      } catch {
        throw new CliFailure(`The fake node cannot listen at ${address.hostname}:${address.port}. Is the port in use?`)
      }
      if (!isLoopback(address.hostname)) terminal.err('Everyone who can reach this port can set its faults.\n')
      terminal.out(json ? `${JSON.stringify({ url: node.url, models })}\n` : introduction(terminal, node, models))
      await ended
      node.stop()
      return undefined
    },
  }),
}
