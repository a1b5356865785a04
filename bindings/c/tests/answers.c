/* A query is answered from the messages of a job, and a plan ends the job at an accepted error. */

#include "check.h"

#include <math.h>

#define HEADER "key,value\n"

static atp_query open_query(const char *text, const atp_query_options *options) {
    atp_query query;
    CHECK(atp_query_open(text, HEADER, strlen(HEADER), options, &query) == ATP_OK);
    return query;
}

static void add(atp_query query, uint32_t stratum, const char *rows) {
    CHECK(atp_query_add(query, stratum, rows, strlen(rows)) == ATP_OK);
}

/* Tells a query that the messages of its stratum are shuffled. */
static void shuffled(atp_query query, uint32_t stratum) {
    atp_delivery delivery;
    ATP_INIT(&delivery);
    delivery.order = ATP_ORDER_SHUFFLED;
    CHECK(atp_query_set_delivery(query, stratum, &delivery) == ATP_OK);
}

/* All messages arrived: the answers are those of the table. */
static void complete(void) {
    atp_query query = open_query("sum(value) by key", NULL);
    CHECK(atp_query_set_messages_sent(query, 0, 2) == ATP_OK);
    CHECK(atp_query_set_messages_sent(query, 7, 1) == ATP_OK);
    add(query, 0, "b,1\n\"a \"\"1\"\"\",2\n");
    add(query, 0, "b,NA\nb,0.5\n");
    add(query, 7, "b,8\n");
    uint64_t messages = 0;
    CHECK(atp_query_messages(query, &messages) == ATP_OK && messages == 3);
    atp_answers answers;
    ATP_INIT(&answers);
    CHECK(atp_query_answers(query, &answers) == ATP_OK);
    /* Answers are a snapshot. */
    CHECK(atp_query_free(query) == ATP_OK);
    CHECK(answers.rows_len == 2 && answers.is_ranking == 0);
    atp_estimate row;
    ATP_INIT(&row);
    CHECK(atp_answers_row(&answers, 0, &row) == ATP_OK);
    CHECK(strcmp(row.key, "a \"1\"") == 0 && row.key_len == 5);
    CHECK(row.value == 2 && row.low == 2 && row.high == 2 && row.confidence == 0.95);
    CHECK(isinf(row.degrees_of_freedom) && row.warnings_len == 0);
    CHECK(atp_answers_row(&answers, 1, &row) == ATP_OK);
    CHECK(strcmp(row.key, "b") == 0 && row.value == 9.5);
    CHECK(row.messages == 3 && row.messages_sent == 3 && row.messages_sent_known == 1);
    CHECK(atp_answers_overall(&answers, &row) == ATP_OK && row.value == 11.5 && row.key == NULL);
    atp_answers copy = answers;
    CHECK(atp_answers_free(&answers) == ATP_OK && answers.memory == 0);
    CHECK(atp_answers_free(&answers) == ATP_OK);
    CHECK(atp_answers_row(&copy, 0, &row) == ATP_ERROR_HANDLE);
    CHECK(atp_answers_free(&copy) == ATP_ERROR_HANDLE);
}

/* Several functions of several keys, of the rows that match: a row for each key and function. */
static void of_sql(void) {
    const char *text = "SELECT max(value), count(*) WHERE value > 1 GROUP BY key, value";
    atp_query query = open_query(text, NULL);
    CHECK(atp_query_set_messages_sent(query, 0, 2) == ATP_OK);
    add(query, 0, "a,2\na,1\n\"b,c\",3\n");
    atp_answers answers;
    ATP_INIT(&answers);
    CHECK(atp_query_answers(query, &answers) == ATP_OK);
    CHECK(answers.missing == 0);
    CHECK(answers.rows_len == 4 && answers.functions_len == 2);
    CHECK(strcmp(answers.functions[1], "count(*)") == 0);
    atp_estimate row;
    ATP_INIT(&row);
    CHECK(atp_answers_row(&answers, 2, &row) == ATP_OK && row.function == 0);
    CHECK(row.value == 3 && row.bound == ATP_BOUND_AT_LEAST && isinf(row.high));
    CHECK(strcmp(row.key, "b,c, 3") == 0);
    const char *key = NULL;
    size_t key_len = 0;
    CHECK(atp_answers_key(&answers, 2, 0, &key, &key_len) == ATP_OK);
    CHECK(strcmp(key, "b,c") == 0 && key_len == 3);
    CHECK(atp_answers_key(&answers, 2, 1, &key, NULL) == ATP_OK && strcmp(key, "3") == 0);
    CHECK(atp_answers_key(&answers, 2, 2, &key, &key_len) == ATP_ERROR_ARGUMENT);
    CHECK(atp_answers_key(&answers, 4, 0, &key, &key_len) == ATP_ERROR_ARGUMENT);
    CHECK(atp_answers_row(&answers, 3, &row) == ATP_OK && row.function == 1);
    CHECK(row.value == 2 && row.bound == ATP_BOUND_NONE);
    CHECK(atp_answers_free(&answers) == ATP_OK && atp_query_free(query) == ATP_OK);
    atp_query none;
    CHECK(atp_query_open("SELECT avg(value) ORDER BY key", HEADER, strlen(HEADER), NULL, &none) ==
          ATP_ERROR_QUERY);
    CHECK(strstr(atp_last_error(), "ORDER BY isn't supported") != NULL);
}

/* A part of the messages: intervals, and the warnings that belong to them. */
static void sampled(void) {
    atp_query_options options;
    ATP_INIT(&options);
    options.confidence = 0.99;
    atp_query plain = open_query("avg(value)", NULL), wide = open_query("avg(value)", &options);
    atp_query top = open_query("top(1, key)", NULL);
    for (int i = 0; i < 10; i++) {
        char rows[32];
        snprintf(rows, sizeof rows, "%c,%d\n", i % 3 ? 'x' : 'y', i);
        add(plain, 0, rows);
        add(wide, 0, rows);
        add(top, 0, rows);
    }
    atp_delivery delivery;
    ATP_INIT(&delivery);
    atp_range lost[2] = {{50, 60}, {70, 100}};
    delivery.order = ATP_ORDER_OF_DATA, delivery.shortest_first = 1;
    delivery.has_ended = 1, delivery.lost = lost, delivery.lost_len = 2;
    CHECK(atp_query_set_delivery(plain, 0, &delivery) == ATP_OK);
    atp_answers answers[3];
    atp_query queries[3] = {plain, wide, top};
    for (int i = 0; i < 3; i++) {
        ATP_INIT(&answers[i]);
        CHECK(atp_query_set_messages_sent(queries[i], 0, 100) == ATP_OK);
        CHECK(atp_query_answers(queries[i], &answers[i]) == ATP_OK);
        CHECK(answers[i].rows_len == 1);
        CHECK(atp_query_free(queries[i]) == ATP_OK);
    }
    atp_estimate narrow, broad;
    ATP_INIT(&narrow);
    ATP_INIT(&broad);
    CHECK(atp_answers_row(&answers[0], 0, &narrow) == ATP_OK && narrow.key == NULL);
    CHECK(atp_answers_row(&answers[1], 0, &broad) == ATP_OK && broad.confidence == 0.99);
    CHECK(narrow.value == 4.5 && narrow.low < 4.5 && narrow.high > 4.5);
    CHECK(broad.low < narrow.low && broad.high > narrow.high);
    /* Too few messages, unequal sizes, and messages in order. */
    const char *words[] = {"only 10 messages", "turn MRDF", "follow the order of the data"};
    for (int i = 0; i < 3; i++) {
        int found = 0;
        for (size_t at = 0; at < narrow.warnings_len; at++) {
            found += strstr(narrow.warnings[at], words[i]) != NULL;
        }
        CHECK(found == 1);
    }
    CHECK(answers[2].is_ranking == 1 && answers[2].warnings_len > 0);
    CHECK(strlen(answers[2].warnings[0]) > 10);
    CHECK(atp_answers_row(&answers[2], 0, &broad) == ATP_OK && strcmp(broad.key, "x") == 0);
    CHECK(atp_answers_overall(&answers[2], &broad) == ATP_ERROR_NO_ANSWER);
    for (int i = 0; i < 3; i++) {
        CHECK(atp_answers_free(&answers[i]) == ATP_OK);
    }
}

/* A job of 20,000 messages that ends as soon as its mean is known to 5 %. */
enum { MESSAGES = 20000 };

/* Sends until the job ends, and says whether the receiver ended it. */
static int send_some(atp_job job, uint32_t *sent) {
    for (int batch = 0; batch < 100 && *sent < MESSAGES; batch++) {
        char rows[32];
        snprintf(rows, sizeof rows, "k%u,%u\n", *sent % 2, *sent * 2654435761u >> 24);
        atp_status status = atp_job_try_send(job, 0, rows, strlen(rows), NULL);
        if (status == ATP_ERROR_ENDED_BY_RECEIVER || status == ATP_ERROR_ENDED) {
            return 1;
        }
        if (status == ATP_AGAIN) {
            break;
        }
        CHECK(status == ATP_OK);
        (*sent)++;
    }
    return 0;
}

static void planned(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_query_options accepted;
    ATP_INIT(&accepted);
    accepted.error_relative = 0.05;
    atp_query query = open_query("avg(value)", &accepted);
    atp_job_options options = loopback_options();
    options.msr = 0.5;
    options.messages = MESSAGES;
    options.order = ATP_ORDER_SHUFFLED;
    options.buffer_bytes = 4096;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    uint32_t sent = 0;
    int raised = 0, asked_to_end = 0, ended = 0, has_begun_finish = 0;
    while (!ended) {
        if (!has_begun_finish && (send_some(job, &sent) || sent == MESSAGES)) {
            CHECK(atp_job_begin_finish(job) == ATP_OK);
            has_begun_finish = 1;
        }
        atp_event event;
        ATP_INIT(&event);
        if (atp_receiver_recv(receiver, &event, 10) == ATP_AGAIN) {
            continue;
        }
        atp_group_terms terms;
        ATP_INIT(&terms);
        switch (event.kind) {
        case ATP_EVENT_STARTED:
            CHECK(atp_event_terms(&event, 0, &terms) == ATP_OK && terms.messages == MESSAGES);
            CHECK(atp_query_set_messages_sent(query, 0, terms.messages) == ATP_OK);
            CHECK(terms.order == ATP_ORDER_SHUFFLED && terms.shuffle_buffer == 0);
            CHECK(terms.shortest_first == 0);
            shuffled(query, 0);
            CHECK(atp_query_source_started(query, 0, terms.msr) == ATP_OK);
            break;
        case ATP_EVENT_MESSAGE:
            CHECK(atp_query_add(query, 0, event.data, event.len) == ATP_OK);
            break;
        case ATP_EVENT_FINISHED:
            CHECK(atp_query_source_ended(query, 0) == ATP_OK);
            ended = 1;
            break;
        }
        atp_action action;
        ATP_INIT(&action);
        atp_status status;
        while ((status = atp_query_next_action(query, &action)) == ATP_OK) {
            if (action.kind == ATP_ACTION_RAISE) {
                CHECK(action.stratum == 0 && action.msr == 0.95);
                raised++;
                CHECK(atp_receiver_request_msr(receiver, event.run, 0, action.msr) == ATP_OK);
            } else if (action.kind == ATP_ACTION_END) {
                asked_to_end++;
                CHECK(atp_receiver_request_end(receiver, event.run) == ATP_OK);
            }
        }
        CHECK(status == ATP_AGAIN);
        CHECK(atp_event_free(&event) == ATP_OK);
    }
    CHECK(raised == 1 && asked_to_end == 1);
    atp_plan_report plan;
    ATP_INIT(&plan);
    CHECK(atp_query_plan_report(query, &plan) == ATP_OK);
    CHECK(plan.met == 1 && plan.reason == ATP_PLAN_MET && plan.looks > 0);
    CHECK(plan.reached > 0 && plan.reached <= 0.05);
    atp_answers answers;
    atp_estimate mean;
    ATP_INIT(&answers);
    ATP_INIT(&mean);
    CHECK(atp_query_answers(query, &answers) == ATP_OK);
    CHECK(atp_answers_row(&answers, 0, &mean) == ATP_OK && mean.confidence == 0.95);
    CHECK(mean.low < 140 && mean.high > 115 && mean.messages < MESSAGES);
    CHECK(atp_answers_free(&answers) == ATP_OK && atp_query_free(query) == ATP_OK);
    CHECK(atp_job_free(job) == ATP_OK && atp_receiver_close(receiver) == ATP_OK);
}

/* Adds messages of one row until the plan ends or asks for the end, and says how many. */
static uint32_t add_until_end(atp_query query, uint32_t most, uint32_t rare_every) {
    for (uint32_t i = 0; i < most; i++) {
        char rows[32];
        snprintf(rows, sizeof rows, "%s,%u\n", rare_every && i % rare_every == 7 ? "rare" : "usual",
                 100 + (i * 2654435761u >> 24));
        add(query, 0, rows);
        atp_action action;
        ATP_INIT(&action);
        atp_status status;
        while ((status = atp_query_next_action(query, &action)) == ATP_OK) {
            if (action.kind == ATP_ACTION_END) {
                return i + 1;
            }
        }
        CHECK(status == ATP_AGAIN);
    }
    return most;
}

static atp_query open_planned(const char *text, uint32_t sources) {
    atp_query_options options;
    ATP_INIT(&options);
    options.error_relative = 0.05;
    options.sources = sources;
    atp_query query = open_query(text, &options);
    CHECK(atp_query_set_messages_sent(query, 0, MESSAGES) == ATP_OK);
    shuffled(query, 0);
    CHECK(atp_query_source_started(query, 0, 0.95) == ATP_OK);
    return query;
}

/* A plan of a query by key is met once each row is. */
static void rare_key(void) {
    atp_query all = open_planned("avg(value)", 0);
    atp_query by_key = open_planned("avg(value) by key", 0);
    uint32_t of_all = add_until_end(all, MESSAGES, 50);
    uint32_t of_keys = add_until_end(by_key, MESSAGES, 50);
    CHECK(of_all < MESSAGES / 20 && of_keys > 2 * of_all && of_keys < MESSAGES);
    atp_plan_report plan;
    ATP_INIT(&plan);
    CHECK(atp_query_plan_report(by_key, &plan) == ATP_OK && plan.met == 1);
    atp_answers answers;
    ATP_INIT(&answers);
    CHECK(atp_query_answers(by_key, &answers) == ATP_OK && answers.rows_len == 2);
    double worst = 0;
    for (size_t i = 0; i < answers.rows_len; i++) {
        atp_estimate row;
        ATP_INIT(&row);
        CHECK(atp_answers_row(&answers, i, &row) == ATP_OK);
        double below = row.value - row.low, above = row.high - row.value;
        double error = (above > below ? above : below) / row.value;
        CHECK(error <= 0.05);
        worst = error > worst ? error : worst;
    }
    CHECK(fabs(worst - plan.reached) < 1e-9);
    CHECK(atp_answers_free(&answers) == ATP_OK);
    CHECK(atp_query_free(all) == ATP_OK && atp_query_free(by_key) == ATP_OK);
}

/* A plan that awaits two sources doesn't end before the second is known. */
static void awaited_sources(void) {
    for (int how = 0; how < 2; how++) {
        atp_query query = open_planned("avg(value)", 2);
        CHECK(add_until_end(query, 2000, 0) == 2000);
        CHECK((how ? atp_query_source_started(query, 1, 0.95) : atp_query_source_known(query, 1)) ==
              ATP_OK);
        CHECK(add_until_end(query, 1, 0) == 1);
        atp_plan_report plan;
        ATP_INIT(&plan);
        CHECK(atp_query_plan_report(query, &plan) == ATP_OK && plan.met == 1);
        CHECK(atp_query_free(query) == ATP_OK);
    }
}

/* A table is sent shuffled, and a query of it has the answer of the whole. */
enum { RECORDS = 2000 };

static void of_a_table(void) {
    static char csv[RECORDS * 16 + 16];
    size_t len = (size_t)sprintf(csv, "%s", HEADER);
    for (int i = 0; i < RECORDS; i++) {
        len += (size_t)sprintf(csv + len, "k%d,%d\n", i % 2, i);
    }
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_csv_options table;
    ATP_INIT(&table);
    table.rows = 10;
    /* A program of a later version has more fields. */
    struct {
        atp_job_options known;
        uint64_t later;
    } options = {loopback_options(), 0};
    options.known.struct_size = sizeof options;
    atp_job job;
    uint64_t long_records = 9;
    CHECK(atp_job_connect_csv(address, csv, len, &table, &options.known, &job, &long_records) ==
          ATP_OK);
    CHECK(long_records == 0);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_finish(job, &report) == ATP_OK && report.complete == 1);
    CHECK(atp_job_free(job) == ATP_OK);

    atp_query query = open_query("sum(value)", NULL), count = open_query("count(*)", NULL);
    int in_order = 1, ended = 0;
    uint32_t rows = 0, headers = 0, totals = 0;
    while (!ended) {
        atp_event event;
        atp_group_terms terms;
        ATP_INIT(&event);
        ATP_INIT(&terms);
        CHECK(atp_receiver_recv(receiver, &event, 5000) == ATP_OK);
        switch (event.kind) {
        case ATP_EVENT_STARTED:
            CHECK(event.groups_len == 2 && atp_event_terms(&event, 0, &terms) == ATP_OK);
            CHECK(terms.messages == RECORDS / 10 && terms.order == ATP_ORDER_SHUFFLED);
            CHECK(terms.shortest_first == 0 && strcmp(terms.name, "rows") == 0);
            CHECK(atp_query_set_messages_sent(query, 0, terms.messages) == ATP_OK);
            break;
        case ATP_EVENT_MESSAGE:
            if (event.group == 255 && event.message == 1) {
                CHECK(atp_query_add_totals(query, 0, event.data, event.len) == ATP_OK);
                CHECK(atp_query_add_totals(count, 0, event.data, event.len) == ATP_OK);
                totals++;
                break;
            }
            if (event.group == 255) {
                CHECK(event.len == strlen(HEADER) && memcmp(event.data, HEADER, event.len) == 0);
                headers++;
                break;
            }
            /* Unshuffled, each message begins with a record of k0. */
            in_order &= memcmp(event.data, "k0", 2) == 0;
            CHECK(atp_query_add(query, 0, event.data, event.len) == ATP_OK);
            /* A count needs no more than the totals and a message. */
            CHECK(rows > 0 || atp_query_add(count, 0, event.data, event.len) == ATP_OK);
            rows++;
            break;
        case ATP_EVENT_FINISHED: {
            /* A short job may end before its terms arrive. Its end states the number too. */
            atp_group_summary summary;
            ATP_INIT(&summary);
            CHECK(atp_event_group(&event, 0, &summary) == ATP_OK && summary.group == 0);
            CHECK(atp_query_set_messages_sent(query, 0, summary.messages) == ATP_OK);
            ended = 1;
            break;
        }
        }
        CHECK(atp_event_free(&event) == ATP_OK);
    }
    CHECK(rows == RECORDS / 10 && headers == 1 && totals == 1 && !in_order);
    atp_answers answers;
    atp_estimate sum;
    ATP_INIT(&answers);
    ATP_INIT(&sum);
    CHECK(atp_query_answers(query, &answers) == ATP_OK);
    CHECK(atp_answers_row(&answers, 0, &sum) == ATP_OK && sum.warnings_len == 0);
    CHECK(sum.value == RECORDS * (RECORDS - 1) / 2 && sum.low == sum.high);
    CHECK(atp_answers_free(&answers) == ATP_OK && atp_query_free(query) == ATP_OK);
    CHECK(atp_query_answers(count, &answers) == ATP_OK);
    CHECK(atp_answers_row(&answers, 0, &sum) == ATP_OK && sum.warnings_len == 0);
    CHECK(sum.value == RECORDS && sum.low == RECORDS && sum.high == RECORDS);
    CHECK(atp_answers_free(&answers) == ATP_OK && atp_query_free(count) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

static atp_status connect_csv(const char *csv, const atp_csv_options *table, uint32_t messages) {
    atp_job_options options = loopback_options();
    options.messages = messages;
    atp_job job;
    return atp_job_connect_csv("127.0.0.1:1", csv, strlen(csv), table, &options, &job, NULL);
}

/* What is no table opens no job. */
static void bad_tables(void) {
    atp_csv_options table;
    ATP_INIT(&table);
    table.ordered = 1;
    CHECK(connect_csv("", &table, 0) == ATP_ERROR_ARGUMENT);
    CHECK(connect_csv("a,b\n", &table, 0) == ATP_ERROR_ARGUMENT);
    CHECK(strstr(atp_last_error(), "no record") != NULL);
    CHECK(connect_csv("a,b\n1,\"x\n2,y\n", &table, 0) == ATP_ERROR_ROW);
    CHECK(strstr(atp_last_error(), "line 2") != NULL);
    CHECK(connect_csv("a,b\n1,2\n", &table, 7) == ATP_ERROR_ARGUMENT);
    table.seed = 5;
    CHECK(connect_csv("a,b\n1,2\n", &table, 0) == ATP_ERROR_ARGUMENT);
}

int main(void) {
    complete();
    of_sql();
    sampled();
    planned();
    rare_key();
    awaited_sources();
    of_a_table();
    bad_tables();
    printf("answers: of complete, sampled and planned jobs\n");
    return 0;
}
