import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { noConfidences } from '../../../src/confidences.ts'
import { cleanMessage } from '../../../src/protocol/chat/clean-message.ts'
import { nodeRefusal, refusalProblem } from '../../../src/protocol/chat/node-refusal.ts'

const names = { '/models/qwen.gguf': 'public-qwen' }
const refusal = (status: number | null, body: unknown) =>
  nodeRefusal(status, typeof body === 'string' ? body : JSON.stringify(body), { names, confided: noConfidences })
const openAi = (message: string, more: object = {}) => ({ error: { message, type: 'invalid_request_error', ...more } })

describe('§27: a prompt that is too long, in the words of each server', () => {
  const llama = { code: 400, type: 'exceed_context_size_error', n_prompt_tokens: 6030, n_ctx: 4096 }
  const vllm = (message: string) => ({ object: 'error', message, type: 'BadRequestError', param: null, code: 400 })
  test.each([
    [
      'llama.cpp',
      400,
      { error: { ...llama, message: 'the request exceeds the available context size, try increasing it' } },
      6030,
      4096,
    ],
    [
      'llama.cpp, by its words',
      400,
      openAi('request (6030 tokens) exceeds the available context size (4096 tokens), try increasing it'),
      6030,
      4096,
    ],
    [
      'llama.cpp, older',
      400,
      openAi('the request exceeds the available context size. try increasing the context size'),
      null,
      null,
    ],
    [
      'vLLM',
      400,
      vllm(
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4744 in the messages, 256 in the completion). Please reduce the length of the messages or completion.",
      ),
      4744,
      4096,
    ],
    [
      'vLLM, newer',
      400,
      {
        error: vllm(
          "This model's maximum context length is 4096 tokens. However, your request has 6030 input tokens. Please reduce the length of the input messages.",
        ),
      },
      6030,
      4096,
    ],
    [
      'vLLM, newest',
      400,
      {
        error: {
          message:
            "This model's maximum context length is 1024 tokens. However, you requested 0 output tokens and your prompt contains at least 1025 input tokens, for a total of at least 1025 tokens.",
          code: 400,
        },
      },
      1025,
      1024,
    ],
    [
      'vLLM, media',
      400,
      vllm(
        'The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.',
      ),
      25_938,
      4096,
    ],
    [
      'vLLM, decoder',
      400,
      vllm('The decoder prompt (length 5000) is longer than the maximum model length of 4096.'),
      5000,
      4096,
    ],
    [
      'SGLang',
      400,
      vllm("The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
      61_709,
      40_960,
    ],
    [
      'SGLang, with the completion',
      400,
      vllm(
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4000 tokens from the input messages and 1000 tokens for the completion.",
      ),
      4000,
      4096,
    ],
    [
      'SGLang, the pool',
      400,
      vllm(
        'Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate.',
      ),
      160_062,
      59_862,
    ],
    ['Ollama', 400, { error: 'the input length exceeds the context length' }, null, null],
    ['Ollama, as 500', 500, openAi('the input length exceeds the context length'), null, null],
    [
      'LM Studio',
      400,
      {
        error:
          'Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input',
      },
      10_136,
      7866,
    ],
    ['LM Studio, newer', 400, { error: 'Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)' }, 15_028, 7424],
    [
      'LM Studio, without numbers',
      400,
      { error: 'The number of tokens to keep from the initial prompt is greater than the context length.' },
      null,
      null,
    ],
    [
      'LM Studio, in a stream',
      null,
      openAi(
        'Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough.',
      ),
      10_136,
      7866,
    ],
    [
      'TGI',
      422,
      {
        error:
          'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`',
        error_type: 'validation',
      },
      3474,
      2048,
    ],
    [
      'TGI, the input alone',
      422,
      {
        error: 'Input validation error: `inputs` must have less than 2048 tokens. Given: 2222',
        error_type: 'validation',
      },
      2222,
      2048,
    ],
    [
      'OpenAI',
      400,
      openAi("This model's maximum context length is 4097 tokens. However, your messages resulted in 5001 tokens.", {
        code: 'context_length_exceeded',
      }),
      5001,
      4097,
    ],
    [
      'an agent',
      400,
      openAi('Too long.', { code: 'context_length_exceeded', svc: { prompt_tokens: 9, context_length: 8 } }),
      9,
      8,
    ],
  ] as const)('%s', (_name, status, body, promptTokens, contextLength) => {
    expect(refusal(status, body)).toMatchObject({ code: 'context_length_exceeded', promptTokens, contextLength })
    const { code, options } = refusalProblem(refusal(status, body) as NonNullable<ReturnType<typeof refusal>>)
    expect([code, options.param]).toEqual(['context_length_exceeded', 'messages'])
    expect(options.metadata).toEqual({
      ...(promptTokens === null ? {} : { prompt_tokens: promptTokens }),
      ...(contextLength === null ? {} : { context_length: contextLength }),
    })
  })
})

describe('§27: an input that the model does not take', () => {
  test.each([
    [
      'llama.cpp',
      500,
      openAi('image input is not supported - hint: if this is unexpected, you may need to provide the mmproj', {
        code: 500,
        type: 'server_error',
      }),
    ],
    [
      'llama.cpp, older',
      500,
      openAi('image input is not supported by this server', { code: 500, type: 'server_error' }),
    ],
    [
      'llama.cpp, sound',
      500,
      openAi('audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj'),
    ],
    ['Ollama', 500, openAi('this model is missing data required for image input', { type: 'api_error' })],
    ['vLLM as 500', 500, openAi('qwen is not a multimodal model')],
    ['an error event', null, openAi('image input is not supported', { code: 500, type: 'server_error' })],
    ['an agent', 400, openAi('image input is not supported', { code: 'unsupported_input' })],
  ] as const)('%s', (_name, status, body) => {
    expect(refusal(status, body)).toMatchObject({ code: 'unsupported_input' })
  })
})

describe('§27: what is the request’s fault, and what the node’s', () => {
  test.each([
    ['400', 400, openAi('temperature must be non-negative'), 'invalid_request'],
    ['400 of a picture', 400, openAi('qwen is not a multimodal model'), 'invalid_request'],
    ['413', 413, '', 'invalid_request'],
    [
      '422 of FastAPI',
      422,
      { detail: [{ msg: 'Input should be a valid list', loc: ['body', 'messages'] }] },
      'invalid_request',
    ],
    ['400 under a 200', null, { error: { message: 'bad role', code: 400 } }, 'invalid_request'],
    ['by its type under a 200', null, openAi('bad role'), 'invalid_request'],
    ['500', 500, openAi('CUDA out of memory', { type: 'server_error' }), null],
    ['500 without words', 500, '', null],
    [
      '500 that speaks of a context',
      500,
      openAi('failed to create context with model', { type: 'server_error' }),
      null,
    ],
    ['an error under a 200', null, { error: { message: 'slot is gone', code: 500 } }, null],
    ['no answer at all', null, '{"choices":[]}', null],
  ] as const)('%s', (_name, status, body, code) => {
    expect(refusal(status, body)?.code ?? null).toBe(code)
  })

  test('the words of each shape', () => {
    const said = 'tools[0] has no name'
    for (const body of [
      openAi(said),
      { error: said },
      { message: said },
      { detail: said },
      { detail: [{ msg: said }] },
      said,
    ]) {
      expect(refusal(400, body)?.message).toBe(said)
    }
    for (const body of ['<html>no</html>', '', '{}', '{"error":{}}', '['.repeat(100_000), '{"error":{"message":7}}']) {
      expect(refusal(400, body)?.message).toBeNull()
    }
  })
})

describe('§27: a node’s own words, cleaned', () => {
  const clean = (text: string) => cleanMessage(text, names)
  test.each([
    [
      'its name of the model',
      "the model '/models/qwen.gguf' has no template",
      "the model 'public-qwen' has no template",
    ],
    ['a URL', 'failed to fetch https://user:pw@10.0.0.1:8080/a?b=c, try again', 'failed to fetch […] try again'],
    ['a path', 'cannot open /srv/models/x.gguf: no such file', 'cannot open […] no such file'],
    ['a path at home', "see '~/.cache/hf' and ../secret/key", "see '[…]' and […]"],
    ['a path of Windows', 'cannot open C:\\Users\\me\\x.gguf', 'cannot open […]'],
    ['a repository', 'not in org/team/weights nor org/weights.safetensors', 'not in […] nor […]'],
    ['a host', 'worker gpu-7.lab.example:9000 is away', 'worker […] is away'],
    ['a host with a port', 'worker gpu-box-7:9000 and localhost:80', 'worker […] and […]'],
    ['addresses', 'from 192.168.1.7:8080, fe80::1ff:fe23:4567:890a or [::1]:80', 'from […], […] or […]'],
    ['a key', `the key sk-${'a1B2'.repeat(12)} is old`, 'the key […] is old'],
    ['controls', 'ab\u0000cd\u001b[31m e\u202ef', 'ab cd [31m e f'],
    [
      'what stays',
      "messages.0.content.type is invalid: and/or image/png, ['text'], 1.5, max_tokens=5",
      "messages.0.content.type is invalid: and/or image/png, ['text'], 1.5, max_tokens=5",
    ],
  ])('%s', (_name, text, expected) => {
    expect(clean(text)).toBe(expected)
  })

  test('300 characters, never half of one; nothing where nothing is left', () => {
    const long = clean('😀 word '.repeat(1_000)) ?? ''
    expect([...long]).toHaveLength(300)
    expect(long.isWellFormed()).toBe(true)
    expect(clean('/srv/models/x.gguf')).toBeNull()
    expect(clean('')).toBeNull()
  })

  test('whatever stands around them, paths, URLs and addresses are gone', () => {
    const secret = fc.constantFrom(
      '/srv/secret-of-the-node',
      'http://secret-of-the-node/x',
      '10.11.12.13',
      '/models/qwen.gguf',
    )
    const around = fc.string({
      unit: fc.constantFrom(' ', '"', "'", '(', ')', ':', ',', 'x ', '. ', '<', '`'),
      maxLength: 12,
    })
    fc.assert(
      fc.property(around, secret, around, (before, hidden, after) => {
        const told = clean(`${before} ${hidden} ${after}`) ?? ''
        expect(told).not.toContain('secret')
        expect(told).not.toContain('10.11')
        expect(told).not.toContain('/models')
      }),
    )
  })

  test('no text is slow to clean', () => {
    const hostile = ['a.', 'a-', '/a', 'a:', '1.', '::', 'a/', 'http', '+', '\\', 'no image ', 'not support ', 'A1b2']
    for (const part of hostile) {
      // A pattern that backtracks takes minutes: this test would not end in its time.
      refusal(500, part.repeat(64 * 1024))
    }
  })
})
